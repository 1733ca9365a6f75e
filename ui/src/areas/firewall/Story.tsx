import {
  IconArrowsExchange,
  IconArrowsSplit2,
  IconBan,
  IconChevronRight,
  IconCircleCheck,
  IconCircleDashed,
  IconLogin,
  IconLogout,
  type IconProps,
  IconServer,
  IconShield,
} from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ComponentType } from 'react'
import { useTranslation } from 'react-i18next'
import { rules } from '../../api/resources'
import type { Explanation } from '../../api/types'
import { Fold } from '../../kit/page/Fold'
import { Things } from '../../kit/text/Things'
import { paths } from '../../paths'
import { decidingStep, type Stage, skippedRules, stationsOf } from './explain-logic'
import { place } from './log-logic'
import { ActionBadge } from './marks'
import classes from './Story.module.css'

const icons: Record<Stage, ComponentType<IconProps>> = {
  in: IconLogin,
  prerouting: IconArrowsExchange,
  routing: IconArrowsSplit2,
  input: IconShield,
  forward: IconShield,
  postrouting: IconArrowsExchange,
  out: IconLogout,
}
const fates = { passed: IconCircleCheck, stopped: IconBan, unreached: IconCircleDashed }

/** The verdict in one line. */
export function Verdict({ answer }: { answer: Explanation }) {
  return <ActionBadge action={answer.verdict} />
}

/** The path through the gateway from left to right, as far as the packet gets. */
export function PathPicture({ answer }: { answer: Explanation }) {
  const { t } = useTranslation('firewall')
  const { packet, decided_by, path } = answer
  return (
    <>
      <ol className={classes.path}>
        {stationsOf(answer).map(({ stage, fate, detail }) => {
          const Icon = stage === 'out' && path === 'input' ? IconServer : icons[stage]
          const Fate = fates[fate]
          return (
            <li key={stage} data-fate={fate} className={classes.station}>
              <IconChevronRight size={18} className={classes.arrow} aria-hidden />
              <Icon size={22} stroke={1.6} aria-hidden />
              <strong>{t(stage === 'out' && path === 'input' ? 'self' : `explain.stages.${stage}`)}</strong>
              <span className={`${classes.detail} mono`}>{detail}</span>
              <span className={classes.fate}>
                <Fate size={14} aria-hidden /> {t(`explain.fates.${fate}`)}
              </span>
            </li>
          )
        })}
      </ol>
      <p className={classes.sentence}>
        {decided_by.text} {decided_by.rule_id && <Link to={paths.rule(decided_by.rule_id)}>{decided_by.name}</Link>}
      </p>
      <p className="soft">
        {t('explain.received')}{' '}
        <span className="mono">
          {packet.protocol} {packet.source ? place(packet.source, packet.source_port) : t('explain.ownAddress')} →{' '}
          {place(packet.destination, packet.destination_port)}
        </span>
      </p>
    </>
  )
}

/** All steps in order. The decisive one is highlighted. */
export function Steps({ answer: { steps } }: { answer: Explanation }) {
  const { t } = useTranslation('firewall')
  const decided = decidingStep(steps)
  const { data = [] } = useQuery({ queryKey: [rules.kind], queryFn: rules.list })
  const skipped = skippedRules(data, steps)
  return (
    <>
      <ol className={classes.steps}>
        {steps.map((step, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: an explanation is replaced as a whole, and its steps have no ids.
          <li key={index} data-outcome={step.outcome} data-decided={step === decided || undefined}>
            <div className={classes.stepHead}>
              <span className={classes.stage}>{t(`explain.stages.${step.stage}`)}</span>
              {step.rule_id ? (
                <Link to={linkOf(step.stage, step.rule_id)}>{step.title}</Link>
              ) : (
                <span>{step.title}</span>
              )}
              {step.verdict ? (
                <ActionBadge action={step.verdict} />
              ) : (
                <span className="soft">{t(`explain.outcomes.${step.outcome}`)}</span>
              )}
              {step === decided && <strong>{t('explain.decided')}</strong>}
            </div>
            <p>{step.reason}</p>
          </li>
        ))}
      </ol>
      {skipped.length > 0 && (
        <Fold title={t('explain.skipped', { count: skipped.length })}>
          <Things things={skipped.map(({ id, name }) => ({ kind: rules.kind, id, name }))} />
        </Fold>
      )}
    </>
  )
}

const linkOf = (stage: string, id: string) => (stage.endsWith('routing') ? paths.natRule(id) : paths.rule(id))
