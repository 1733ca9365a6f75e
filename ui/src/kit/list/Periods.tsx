import { Button, TextInput } from '@mantine/core'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { localInput } from '../text/format'
import type { ListSearch } from './list-logic'
import classes from './Periods.module.css'
import { periods } from './period-logic'

interface PeriodsProps {
  search: ListSearch
  onPeriod: (part: ListSearch) => void
  /** Other filters of the list. */
  children?: ReactNode
}

const times = ['from', 'to'] as const
const inputOf = (at: number | null) => (at === null ? undefined : localInput(at))

/** A period, typed or chosen. Times in the address bar are local, as typed. */
export function Periods({ search, onPeriod, children }: PeriodsProps) {
  const { t } = useTranslation()
  return (
    <fieldset className={classes.times}>
      <legend className="visually-hidden">{t('period.label')}</legend>
      {times.map((name) => (
        <TextInput
          key={name}
          size="xs"
          type="datetime-local"
          step={1}
          label={t(`period.${name}`)}
          value={search[name] ?? ''}
          onChange={(event) => onPeriod({ [name]: event.currentTarget.value || undefined })}
        />
      ))}
      <div className={classes.usual}>
        {periods(new Date()).map(({ name, from, to }) => (
          <Button
            key={name}
            size="compact-xs"
            variant="default"
            onClick={() => onPeriod({ from: inputOf(from), to: inputOf(to) })}
          >
            {t(`period.${name}`)}
          </Button>
        ))}
      </div>
      {children}
    </fieldset>
  )
}
