import { TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { interfaces, rules } from '../../api/resources'
import { Choice } from '../../kit/form/Choice'
import type { ListSearch } from '../../kit/list/list-logic'
import { useBook } from './book'
import classes from './Firewall.module.css'
import { actions } from './rule-form'

const protocols = ['tcp', 'udp', 'icmp', 'icmpv6']

/** The filters of the log. They are in the address bar, and the gateway applies them. */
export function LogFilters({ faults }: { faults: Record<string, string> }) {
  const { t } = useTranslation('firewall')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const { data = [] } = useQuery({ queryKey: [rules.kind], queryFn: rules.list })
  const links = useQuery({ queryKey: [interfaces.kind], queryFn: interfaces.list })
  const change = (part: ListSearch) =>
    void navigate({ to: '.', search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)
  const typed = useDebouncedCallback(change, 400)
  const select = (name: string, label: string, options: { value: string; label: string }[]) => (
    <Choice
      size="xs"
      label={label}
      data={options}
      value={search[name] ?? null}
      onChange={(value) => change({ [name]: value ?? undefined })}
      placeholder={t('any')}
      clearable
      clearButtonProps={{ 'aria-label': t('log.clear', { filter: label }) }}
      error={faults[name]}
    />
  )
  const text = (name: string, label: string, placeholder = t('log.network')) => (
    <TextInput
      size="xs"
      label={label}
      placeholder={placeholder}
      classNames={{ input: 'mono' }}
      defaultValue={search[name] ?? ''}
      onChange={(event) => typed({ [name]: event.currentTarget.value.trim() || undefined })}
      error={faults[name]}
    />
  )
  const zones = useBook().lists.zones
  const plain = (values: readonly string[]) => values.map((value) => ({ value, label: value }))
  return (
    <form className={classes.filters} onSubmit={(event) => event.preventDefault()}>
      {text('q', t('log.text'), t('log.words'))}
      {select(
        'rule_id',
        t('log.rule'),
        data.filter(({ log }) => log).map(({ id, name }) => ({ value: id, label: name })),
      )}
      {text('src', t('rule.sections.src'))}
      {text('dst', t('rule.sections.dst'))}
      {text('port', t('log.port'), t('any'))}
      {select('proto', t('log.proto'), plain(protocols))}
      {select('interface', t('log.interface'), plain(links.data?.map(({ name }) => name) ?? []))}
      {select('zone', t('rule.zone'), plain(zones.map(({ name }) => name)))}
      {select(
        'action',
        t('rule.action.label'),
        actions.map((value) => ({ value, label: t(`actions.${value}`) })),
      )}
    </form>
  )
}
