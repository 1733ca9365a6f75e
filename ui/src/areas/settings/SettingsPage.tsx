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
import '../proxy/texts'
import { useMaintenance } from '../proxy/Maintenance'
import en from './en.json'
import classes from './Settings.module.css'

addTexts('settings', en)

const ipv6 = singleton('system.ipv6', '/system/ipv6', 'post')
const retention = singleton('system.retention', '/system/retention', 'put')
const retentionFields: FieldSpec[] = [{ name: 'audit_days', type: 'number', min: 0, max: 3650 }]

export default function SettingsPage() {
  const { t } = useTranslation('settings')
  const { ask } = useMaintenance()
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Panel title={t('general')}>
        <div className={classes.flags}>
          <Flag name="ipv6" flag={ipv6} />
          <Flag name="maintenance" flag={maintenance} ask={ask} />
        </div>
      </Panel>
      <Panel title={t('retention.title')}>
        <SettingsForm singleton={retention} text="settings:retention" fields={retentionFields} preview={false} />
      </Panel>
    </Page>
  )
}

interface FlagProps {
  name: 'ipv6' | 'maintenance'
  flag: Singleton<{ enabled: boolean }>
  /** Asks first, and changes it then. */
  ask?: (enabled: boolean) => Promise<unknown>
}

/** A switch that is the setting itself: it changes when the gateway has stored it. */
function Flag({ name, flag, ask }: FlagProps) {
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
          onChange={({ currentTarget: { checked } }) => (ask ? void ask(checked) : change.mutate(checked))}
        />
      )}
    </Loaded>
  )
}
