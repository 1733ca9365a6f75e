import './texts'
import { ActionIcon, Popover } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { IconBell } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import { alertStream } from '../../api/streams'
import { useStream } from '../../kit/state/useStream'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Alerts.module.css'
import { SeverityBadge } from './marks'
import { openQuery } from './resources'

const shown = 6

/** Open alerts and recent events, reachable from every page. */
export default function Bell() {
  const { t } = useTranslation('alerts')
  const queries = useQueryClient()
  const [opened, drop] = useDisclosure(false)
  const open = useQuery(openQuery)
  const { items } = useStream(alertStream)
  const wrong = open.data ?? []
  const tone = wrong.some(({ severity }) => severity === 'error' || severity === 'critical') ? 'bad' : 'warn'

  useEffect(
    () =>
      alertStream.onNews(() => {
        void queries.invalidateQueries({ queryKey: ['alert', 'open'] })
        void queries.invalidateQueries({ queryKey: ['alert', 'events'] })
      }),
    [queries],
  )

  return (
    <Popover
      opened={opened}
      onChange={(on) => !on && drop.close()}
      position="bottom-end"
      width={380}
      shadow="md"
      trapFocus
    >
      <Popover.Target>
        <ActionIcon
          variant="default"
          size={30}
          className={classes.bell}
          aria-label={open.data ? t('bell.label', { count: wrong.length }) : t('bell.unknown')}
          aria-haspopup="dialog"
          onClick={drop.toggle}
        >
          <IconBell size={16} />
          {wrong.length > 0 && (
            <span className={classes.badge} data-tone={tone} aria-hidden>
              {wrong.length > 99 ? '99+' : wrong.length}
            </span>
          )}
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown className={classes.drop} aria-label={t('title')}>
        <h2>{t('bell.open')}</h2>
        {open.data && wrong.length === 0 && <p>{t('bell.none')}</p>}
        <ul className={classes.list}>
          {wrong.slice(0, shown).map((one) => (
            <li key={`${one.kind} ${one.key}`}>
              <div title={one.message}>
                <span className={classes.what}>{one.subject}</span>
                <SeverityBadge severity={one.severity} />
                <span className="soft">
                  <Time at={one.since} />
                </span>
              </div>
            </li>
          ))}
        </ul>
        <h2>{t('bell.latest')}</h2>
        {items.length === 0 && <p>{t('bell.noEvents')}</p>}
        <ul className={classes.list}>
          {items
            .slice(-shown)
            .reverse()
            .map((event) => (
              <li key={event.id}>
                <Link to={paths.alertEvent(event.id)} onClick={drop.close}>
                  <span className={classes.what}>{event.subject}</span>
                  <SeverityBadge {...event} />
                  <span className="soft">
                    <Time at={event.created_at} />
                  </span>
                </Link>
              </li>
            ))}
        </ul>
        <Link to={paths.alerts} onClick={drop.close} className={classes.all}>
          {t('bell.all')}
        </Link>
      </Popover.Dropdown>
    </Popover>
  )
}
