import { IconHourglass } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import { Badge } from '../state/StateBadge'
import { duration } from '../text/format'
import classes from './JobSteps.module.css'
import { type JobStep, stepTone } from './job'

/** The steps of a job that runs as root, with the output of its programs. The steps' names are texts of the area. */
export function JobSteps({ text, steps }: { text: string; steps: readonly JobStep[] }) {
  const { t } = useTranslation(text)
  return (
    <ol className={classes.steps}>
      {steps.map((step) => (
        <li key={step.began_at} className={classes.step}>
          <div className={classes.stepHead}>
            <span>{t(`step.${step.name}`)}</span>
            <span>
              {step.ended_at && <span className="soft">{duration(secondsOf(step))} </span>}
              <Badge tone={stepTone[step.state]} icon={step.state === 'running' ? IconHourglass : undefined}>
                {t(`common:job.${step.state}`)}
              </Badge>
            </span>
          </div>
          {step.error && <div>{step.error}</div>}
          {step.output && (
            <details>
              <summary>{t('common:job.output')}</summary>
              <pre className={`mono ${classes.output}`}>{step.output}</pre>
            </details>
          )}
        </li>
      ))}
    </ol>
  )
}

const secondsOf = ({ began_at, ended_at }: JobStep) =>
  Math.max(1, Math.round((Date.parse(ended_at as string) - Date.parse(began_at)) / 1000))
