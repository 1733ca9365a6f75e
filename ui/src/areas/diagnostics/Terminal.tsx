import { IconHourglass, IconPlayerStop } from '@tabler/icons-react'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { CopyButton } from '../../kit/page/CopyText'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { count } from '../../kit/text/format'
import classes from './Diagnostics.module.css'
import { commandOf, type Entry, type Standing, standingOf } from './tool'

const tones: Record<Standing, Tone> = {
  running: 'warn',
  ok: 'live',
  failed: 'bad',
  timedOut: 'bad',
  truncated: 'warn',
  stopped: 'off',
  refused: 'bad',
}
const icons = { running: IconHourglass, stopped: IconPlayerStop }

/** The result of a run, with exit status and duration. */
export function StandingBadge({ entry }: { entry: Entry }) {
  const { t } = useTranslation('diagnostics')
  const standing = standingOf(entry)
  const result = entry.end?.kind === 'result' ? entry.end.result : undefined
  return (
    <Badge tone={tones[standing]} icon={icons[standing as keyof typeof icons]}>
      {t(`standing.${standing}`, { status: result?.exit_status })}
      {result && <span className={classes.took}> · {t('took', { ms: count(result.duration_ms) })}</span>}
    </Badge>
  )
}

/** The output of a tool. */
export function Terminal({ entry }: { entry: Entry }) {
  const { t } = useTranslation('diagnostics')
  const box = useRef<HTMLPreElement>(null)
  const following = useRef(true)
  // Follow the end, unless the user has scrolled back to read.
  // biome-ignore lint/correctness/useExhaustiveDependencies: new output is the reason to scroll.
  useEffect(() => {
    const pre = box.current
    if (pre && following.current) pre.scrollTop = pre.scrollHeight
  }, [entry.output])
  const command = commandOf(entry.form)
  return (
    <section className={classes.terminal} aria-label={t('terminal', { command })}>
      <header>
        <span className="mono">$ {command}</span>
        <span className={classes.terminalEnd}>
          <StandingBadge entry={entry} />
          <CopyButton text={entry.output} />
        </span>
      </header>
      {entry.end?.kind === 'failed' && <Notice tone="bad">{entry.end.message}</Notice>}
      <pre
        ref={box}
        role="log"
        aria-label={t('output')}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
        tabIndex={0}
        onScroll={({ currentTarget: pre }) => {
          following.current = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24
        }}
      >
        {entry.output}
        {!entry.end && <span className={classes.cursor} aria-hidden />}
      </pre>
    </section>
  )
}
