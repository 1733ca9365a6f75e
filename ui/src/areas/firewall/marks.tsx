import { Pill, Popover } from '@mantine/core'
import { IconBan, IconCheck, IconCornerUpLeft } from '@tabler/icons-react'
import { Fragment, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Thing } from '../../api/fault'
import type { Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { count } from '../../kit/text/format'
import { Things } from '../../kit/text/Things'
import { paths } from '../../paths'
import classes from './Firewall.module.css'

const looks: Record<string, { tone: Tone; icon: typeof IconBan }> = {
  accept: { tone: 'live', icon: IconCheck },
  drop: { tone: 'bad', icon: IconBan },
  reject: { tone: 'warn', icon: IconCornerUpLeft },
}

/** What happens to a packet. */
export function ActionBadge({ action }: { action: string }) {
  const { t } = useTranslation('firewall')
  const look = looks[action]
  if (!look) return <Badge tone="off">{t('actions.unknown')}</Badge>
  return (
    <Badge tone={look.tone} icon={look.icon}>
      {t(`actions.${action}`)}
    </Badge>
  )
}

export function ZoneName({ zone }: { zone: string }) {
  const { t } = useTranslation('firewall')
  if (zone === 'any') return <span className="soft">{t('any')}</span>
  return <span className={classes.zone}>{zone === 'self' ? t('selfShort') : zone}</span>
}

function Labels({ labels }: { labels: readonly string[] }) {
  return (
    <>
      {labels.map((label) => (
        <Fragment key={label}>
          {' '}
          <Pill size="xs" className={classes.label}>
            {label}
          </Pill>
        </Fragment>
      ))}
    </>
  )
}

interface Named {
  name: string
  enabled: boolean
  labels: string[]
  comment: string
}

/** A rule's name with its labels and description. */
export function RuleName({ row: { name, enabled, labels, comment } }: { row: Named }) {
  return (
    <>
      <span className={enabled ? undefined : classes.off}>{name}</span>
      <Labels labels={labels} />
      {comment && <small className={classes.comment}> {comment}</small>}
    </>
  )
}

export function Builtin({ builtin }: { builtin: boolean }) {
  const { t } = useTranslation('firewall')
  return builtin && <span className="soft">{t('builtin')}</span>
}

/**
 * How many things use a row; a click lists them. Until then it is a plain button, because a list has thousands of them.
 */
export function UsedBy({ users, name }: { users: Thing[] | undefined; name: string }) {
  const { t } = useTranslation('firewall')
  const [wanted, setWanted] = useState(false)
  if (!users?.length) return <span className="soft">{users ? 0 : '–'}</span>
  const button = (
    <button
      type="button"
      className={classes.used}
      aria-label={t('usedByOf', { name, count: users.length })}
      aria-haspopup="dialog"
      onClick={() => setWanted(true)}
    >
      {count(users.length)}
    </button>
  )
  if (!wanted) return button
  return (
    <Popover position="bottom-end" shadow="md" withinPortal opened onChange={setWanted}>
      <Popover.Target>{button}</Popover.Target>
      <Popover.Dropdown>
        <Things things={users} className={classes.users} all={{ to: paths.rules, q: name }} />
      </Popover.Dropdown>
    </Popover>
  )
}
