import { Button, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Choice, Choices } from '../../kit/form/Choice'
import type { ListSearch } from '../../kit/list/list-logic'
import { useDomains } from '../proxy/useSites'
import classes from './Logs.module.css'
import { levels, rangeSearch, ranges, requestsOfDomains } from './log-logic'
import { sourcesQuery } from './resources'

/** The filters. They are in the address bar, and the gateway applies them. */
export function LogFilters({ faults, live }: { faults: Record<string, string>; live: boolean }) {
  const { t } = useTranslation('logs')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const { data: sources = [] } = useQuery(sourcesQuery)
  const { all } = useDomains()
  const change = (part: ListSearch) =>
    void navigate({ to: '.', search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)
  const typed = useDebouncedCallback(change, 400)
  const chosen = search.sources?.split(',').filter(Boolean) ?? []
  const time = (name: 'since' | 'until') => (
    <TextInput
      key={`${name} ${search[name] ?? ''}`}
      size="xs"
      type="datetime-local"
      step={1}
      label={t(name)}
      defaultValue={search[name] ?? ''}
      onBlur={(event) => change({ [name]: event.currentTarget.value || undefined })}
      onKeyDown={(event) => event.key === 'Enter' && change({ [name]: event.currentTarget.value || undefined })}
      error={faults[name]}
    />
  )
  return (
    <>
      {!live && (
        <fieldset className={classes.ranges} aria-label={t('ranges.label')}>
          {ranges.map((range) => (
            <Button
              key={range}
              size="compact-xs"
              variant="default"
              onClick={() => change(rangeSearch(range, Date.now()))}
            >
              {t(`ranges.${range}`)}
            </Button>
          ))}
          <Button
            size="compact-xs"
            variant={search.since || search.until ? 'default' : 'light'}
            onClick={() => change({ since: undefined, until: undefined })}
          >
            {t('ranges.all')}
          </Button>
        </fieldset>
      )}
      <form className={classes.filters} onSubmit={(event) => event.preventDefault()}>
        <Choices
          className={classes.wide}
          size="xs"
          label={t('sources')}
          data={sources.map(({ name, title }) => ({ value: name, label: title }))}
          value={chosen}
          onChange={(next) => change({ sources: next.join(',') || undefined })}
          placeholder={chosen.length === 0 ? t('all') : undefined}
          clearable
          clearButtonProps={{ 'aria-label': t('clear', { filter: t('sources') }) }}
          error={faults.sources}
        />
        <Choice
          size="xs"
          label={t('level')}
          data={levels.map((value) => ({ value, label: t(`levelChoices.${value}`) }))}
          value={search.level ?? null}
          onChange={(value) => change({ level: value ?? undefined })}
          placeholder={t('any')}
          clearable
          clearButtonProps={{ 'aria-label': t('clear', { filter: t('level') }) }}
          error={faults.level}
        />
        <TextInput
          size="xs"
          label={t('text')}
          placeholder={t('textHint')}
          defaultValue={search.text ?? ''}
          onChange={(event) => typed({ text: event.currentTarget.value || undefined })}
          error={faults.text}
        />
        <Choice
          size="xs"
          label={t('domain')}
          data={all.map(({ id, name }) => ({ value: id, label: name }))}
          value={search.domain ?? null}
          onChange={(value) => change({ domain: value ?? undefined, ...(value && { sources: requestsOfDomains }) })}
          placeholder={t('any')}
          clearable
          clearButtonProps={{ 'aria-label': t('clear', { filter: t('domain') }) }}
          error={faults.domain}
        />
        {!live && time('since')}
        {!live && time('until')}
      </form>
    </>
  )
}
