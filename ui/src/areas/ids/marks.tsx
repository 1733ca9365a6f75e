import './texts'
import { IconHelpCircle } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { IdsDecision, IdsStatus } from '../../api/types'
import { optionalText } from '../../i18n/i18n'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { statusQuery } from './resources'

type Daemon = IdsStatus['agent']

/** The state of a daemon. One that is not wanted may be stopped. */
export function DaemonBadge({ daemon: { state }, wanted }: { daemon: Daemon; wanted: boolean }) {
  const { t } = useTranslation('ids')
  const tones: Record<Daemon['state'], Tone> = {
    running: 'live',
    starting: 'warn',
    stopped: wanted ? 'bad' : 'off',
    failed: 'bad',
    not_installed: 'off',
    unknown: 'off',
  }
  return (
    <Badge
      tone={tones[state]}
      icon={state === 'unknown' ? IconHelpCircle : undefined}
      filled={wanted && tones[state] === 'bad'}
    >
      {t(`status.states.${state}`)}
    </Badge>
  )
}

/** Whether a ban is enforced now, according to the kernel. */
export function Effect({ decision: { enforced } }: { decision: Pick<IdsDecision, 'enforced'> }) {
  const { t } = useTranslation('ids')
  const { data: status } = useQuery(statusQuery)
  if (enforced) return <Badge tone="live">{t('decision.dropped')}</Badge>
  if (!status) return <span className="soft">–</span>
  const dropping = status.blocking && status.firewall_bouncer.state === 'running'
  return (
    <span title={t(dropping ? 'decision.listedHelp' : 'decision.idleHelp')}>
      <Badge tone="warn">{t('decision.listed')}</Badge>
    </span>
  )
}

export const originName = (origin: string) => optionalText(`ids:origins.${origin}`) ?? origin

/** CrowdSec could not be asked; shows its error. */
export function Untold({ error, text }: { error: string | undefined; text: string }) {
  const { t } = useTranslation('ids')
  if (!error) return null
  return (
    <Notice tone="warn" title={t(`${text}.unknown`)}>
      {error}
    </Notice>
  )
}
