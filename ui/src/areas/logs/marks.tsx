import { IconBug, IconInfoCircle } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import type { LogEntry } from '../../api/types'
import { Badge } from '../../kit/state/StateBadge'

const tones = { error: 'bad', warn: 'warn', info: 'off', debug: 'off' } as const
const icons = { error: undefined, warn: undefined, info: IconInfoCircle, debug: IconBug }

/** The level of an entry: colour, icon and word. */
export function LevelBadge({ level }: { level: LogEntry['level'] }) {
  const { t } = useTranslation('logs')
  return (
    <Badge tone={tones[level]} icon={icons[level]}>
      {t(`levels.${level}`)}
    </Badge>
  )
}
