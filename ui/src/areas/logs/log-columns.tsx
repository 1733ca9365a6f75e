import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { LogEntry } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { exactTime } from '../../kit/text/format'
import classes from './Logs.module.css'
import { LevelBadge } from './marks'
import { sourcesQuery } from './resources'

const timeOfDay = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const
const day = { day: '2-digit', month: 'short' } as const

/** The time, with the date unless it is today. */
function moment(time: string): string {
  const at = new Date(time)
  const clock = at.toLocaleTimeString('en-GB', timeOfDay)
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString('en-GB', day)} ${clock}`
}

export function useSourceTitles(): Map<string, string> {
  const { data } = useQuery(sourcesQuery)
  return useMemo(() => new Map(data?.map(({ name, title }) => [name, title])), [data])
}

/** The columns for an entry: time, level, source and text. */
export function useLogColumns(): Column<LogEntry>[] {
  const { t } = useTranslation('logs')
  const titles = useSourceTitles()
  // Stable while entries arrive, so that only new rows are drawn.
  return useMemo(
    () => [
      {
        key: 'at',
        header: t('at'),
        width: '150px',
        cell: ({ time }) => (
          <time dateTime={time} title={exactTime(time)}>
            {moment(time)}
          </time>
        ),
      },
      { key: 'level', header: t('level'), width: '88px', cell: ({ level }) => <LevelBadge level={level} /> },
      {
        key: 'source',
        header: t('source'),
        width: 'minmax(0, 0.8fr)',
        cell: ({ source }) => titles.get(source) ?? source,
      },
      {
        key: 'said',
        header: t('said'),
        width: 'minmax(0, 5fr)',
        main: true,
        cell: ({ text }) => <span className={classes.said}>{text.split('\n', 1)[0] || '–'}</span>,
      },
    ],
    [t, titles],
  )
}
