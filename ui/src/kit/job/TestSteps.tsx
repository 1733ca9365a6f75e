import { useTranslation } from 'react-i18next'
import { Badge } from '../state/StateBadge'
import classes from './TestSteps.module.css'

interface TestStepsProps<Name extends string> {
  /** Where the texts of the steps are, by name. */
  text: string
  /** All steps in order. The test ends at the first one that fails. */
  names: readonly Name[]
  steps: readonly { name: Name; ok: boolean; error: string }[]
}

/** The steps of a connection test, with their results. */
export function TestSteps<Name extends string>({ text, names, steps }: TestStepsProps<Name>) {
  const { t } = useTranslation()
  return (
    <ol className={classes.steps} aria-live="polite">
      {names.map((name) => {
        const step = steps.find((one) => one.name === name)
        return (
          <li key={name}>
            <Badge tone={step ? (step.ok ? 'live' : 'bad') : 'off'}>{t(`${text}.${name}`)}</Badge>
            <span className={step?.error ? undefined : 'soft'}>
              {step ? step.error || t(`${text}.fine.${name}`) : t(`${text}.notReached`)}
            </span>
          </li>
        )
      })}
    </ol>
  )
}
