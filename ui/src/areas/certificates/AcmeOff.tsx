import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { acme } from '../../api/resources'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'

/** Without ACME, certificates are not ordered or renewed. Says so where certificates are listed. */
export function AcmeOff() {
  const { t } = useTranslation('certificates')
  const { data } = useQuery({ queryKey: [acme.kind], queryFn: acme.read })
  if (data?.value.enabled !== false) return null
  return (
    <Notice
      tone="warn"
      title={t('acme.off.title')}
      action={
        <Button component={Link} to={paths.acme} size="compact-sm" variant="default">
          {t('acme.off.verb')}
        </Button>
      }
    >
      {t('acme.off.text')}
    </Notice>
  )
}
