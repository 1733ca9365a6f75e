import { TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Choice } from '../../kit/form/Choice'
import type { ListSearch } from '../../kit/list/list-logic'
import { useDomains } from '../proxy/useSites'
import { alertActions } from './alert-logic'
import classes from './Waf.module.css'

/** The filters. They are in the address bar, and the gateway applies them. */
export function AlertFilters({ faults }: { faults: Record<string, string> }) {
  const { t } = useTranslation('waf')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const { all } = useDomains()
  // A new filter starts at the newest alerts.
  const change = (part: ListSearch) =>
    void navigate({
      to: '.',
      search: (old: ListSearch) => ({ ...old, ...part, before: undefined }),
      replace: true,
    } as never)
  const typed = useDebouncedCallback(change, 400)
  const select = (name: string, label: string, options: { value: string; label: string }[]) => (
    <Choice
      size="xs"
      label={label}
      data={options}
      value={search[name] ?? null}
      onChange={(value) => change({ [name]: value ?? undefined })}
      placeholder={t('alert.any')}
      clearable
      clearButtonProps={{ 'aria-label': t('alert.clear', { filter: label }) }}
      error={faults[name]}
    />
  )
  const text = (name: string, label: string, more: { placeholder?: string; type?: string; mono?: boolean } = {}) => (
    <TextInput
      size="xs"
      label={label}
      type={more.type}
      placeholder={more.placeholder}
      classNames={more.mono ? { input: 'mono' } : undefined}
      defaultValue={search[name] ?? ''}
      onChange={(event) => typed({ [name]: event.currentTarget.value.trim() || undefined })}
      error={faults[name]}
    />
  )
  return (
    <form className={classes.filters} onSubmit={(event) => event.preventDefault()}>
      {select(
        'domain_id',
        t('alert.domain'),
        all.map(({ id, name }) => ({ value: id, label: name })),
      )}
      {text('rule_id', t('alert.rule'), { placeholder: t('alert.any'), mono: true })}
      {text('client', t('alert.client'), { placeholder: t('alert.network'), mono: true })}
      {select(
        'action',
        t('alert.action'),
        alertActions.map((value) => ({ value, label: t(`actions.${value}`) })),
      )}
      {text('q', t('alert.q'), { placeholder: t('alert.qHint') })}
      {text('since', t('alert.since'), { type: 'datetime-local' })}
      {text('until', t('alert.until'), { type: 'datetime-local' })}
    </form>
  )
}
