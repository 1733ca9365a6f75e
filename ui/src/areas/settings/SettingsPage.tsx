import { Switch } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { type Singleton, singleton } from '../../api/resource'
import { useCanEdit } from '../../app/session'
import { maintenance } from '../../app/state'
import { addTexts } from '../../i18n/i18n'
import type { FieldSpec } from '../../kit/fields'
import { Loaded } from '../../kit/Loaded'
import { Page, Panel } from '../../kit/Page'
import { SettingsForm } from '../../kit/ResourceForm'
import { toastApplied, toastFault } from '../../kit/toast'
import en from './en.json'
import classes from './Settings.module.css'

addTexts('settings', en)

const flags = {
  ipv6: singleton('system.ipv6', '/system/ipv6', 'post'),
  maintenance,
  autoUpdate: singleton('system.auto-update', '/system/auto-update', 'post'),
}
const retention = singleton('system.retention', '/system/retention', 'put')
const retentionFields: FieldSpec[] = [
  { name: 'audit_days', type: 'number', min: 0, max: 3650 },
  { name: 'backup_keep', type: 'number', min: 1, max: 1000 },
]

export default function SettingsPage() {
  const { t } = useTranslation('settings')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Panel title={t('general')}>
        <div className={classes.flags}>
          <Flag name="ipv6" flag={flags.ipv6} />
          <Flag name="maintenance" flag={flags.maintenance} />
          <Flag name="autoUpdate" flag={flags.autoUpdate} />
        </div>
      </Panel>
      <Panel title={t('retention.title')}>
        <SettingsForm singleton={retention} text="settings:retention" fields={retentionFields} preview={false} />
      </Panel>
    </Page>
  )
}

/** A switch that is the setting itself: it changes when the gateway has stored it. */
function Flag({ name, flag }: { name: keyof typeof flags; flag: Singleton<{ enabled: boolean }> }) {
  const { t } = useTranslation('settings')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const query = useQuery({ queryKey: [flag.kind], queryFn: flag.read })
  const change = useMutation({
    mutationFn: (enabled: boolean) => flag.update({ enabled }, null),
    onSuccess: ({ applied }) => toastApplied(t('common:form.saved'), applied),
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: [flag.kind] }),
  })
  return (
    <Loaded query={query} height={40}>
      {({ value }) => (
        <Switch
          label={t(`${name}.label`)}
          description={t(`${name}.help`)}
          checked={value.enabled}
          disabled={!canEdit || change.isPending}
          onChange={(event) => change.mutate(event.currentTarget.checked)}
        />
      )}
    </Loaded>
  )
}
