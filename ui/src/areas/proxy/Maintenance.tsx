import { Button } from '@mantine/core'
import { IconBarrierBlock } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { maintenance } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { confirm } from '../../kit/change/confirm'
import { RowMenu } from '../../kit/list/RowMenu'
import { Notice } from '../../kit/state/Notice'
import { toastApplied } from '../../kit/state/toast'
import { useDomains } from './useSites'

/** Closes and opens all sites, after a question that tells how many. */
export function useMaintenance() {
  const { t } = useTranslation('proxy')
  const queries = useQueryClient()
  const { all } = useDomains()
  const { data } = useQuery({ queryKey: [maintenance.kind], queryFn: maintenance.read })
  const ask = (enabled: boolean) => {
    const step = enabled ? 'close' : 'open'
    const sites = all.filter(({ active }) => active).length
    return confirm({
      title: t(`maintenance.${step}.title`),
      text: t(`maintenance.${step}.text`, { count: sites }),
      verb: t(`maintenance.${step}.verb`),
      danger: enabled,
      act: async () => {
        const { applied } = await maintenance.update({ enabled }, null)
        toastApplied(t(`maintenance.${step}.done`), applied)
        await queries.invalidateQueries({ queryKey: [maintenance.kind] })
      },
    })
  }
  return { closed: data?.value.enabled, ask, sites: all.length }
}

/** The menu for all sites: closes them at once. */
export function DomainsMenu() {
  const { t } = useTranslation('proxy')
  const canEdit = useCanEdit()
  const { closed, ask, sites } = useMaintenance()
  if (!canEdit || closed !== false || sites === 0) return null
  return (
    <RowMenu
      name={t('domain.title')}
      items={() => [
        { label: t('maintenance.close.button'), icon: IconBarrierBlock, danger: true, act: () => void ask(true) },
      ]}
    />
  )
}

export function MaintenanceNotice() {
  const { t } = useTranslation('proxy')
  const canEdit = useCanEdit()
  const { closed, ask } = useMaintenance()
  if (!closed) return null
  return (
    <Notice
      tone="warn"
      title={t('maintenance.now.title')}
      action={
        canEdit && (
          <Button size="compact-sm" variant="default" onClick={() => ask(false)}>
            {t('maintenance.open.verb')}
          </Button>
        )
      }
    >
      {t('maintenance.now.text')}
    </Notice>
  )
}
