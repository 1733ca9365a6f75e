import './texts'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { adoptableQuery } from './useLinks'

/** Says that some interfaces are not managed, and links to the page for that. */
export default function AdoptOffer({ first }: { first?: boolean }) {
  const { t } = useTranslation('network')
  const canEdit = useCanEdit()
  const { data } = useQuery(adoptableQuery)
  if (!data?.length) return null
  return (
    <Notice
      tone={first ? 'warn' : 'off'}
      title={first ? t('adopt.first') : t('adopt.offer', { count: data.length })}
      action={
        canEdit && (
          <Button component={Link} to={paths.interfaceAdopt} size="compact-sm" variant={first ? 'filled' : 'default'}>
            {t('adopt.verb')}
          </Button>
        )
      }
    >
      {first ? t('adopt.firstText') : <span className="mono">{data.map(({ name }) => name).join(', ')}</span>}
    </Notice>
  )
}
