import { useTranslation } from 'react-i18next'
import { Badge } from '../state/StateBadge'
import classes from './TestSteps.module.css'

interface TestStepsProps<Name extends string> {
  /** The area's texts: `test`, with the names of the steps. */
  text: string
  /** All steps in order; the test ends at the first that fails. */
  names: readonly Name[]
  steps: readonly { name: Name; ok: boolean; error: string }[]
}

/** How a test of a connection went, step by step. */
export function TestSteps<Name extends string>({ text, names, steps }: TestStepsProps<Name>) {
  const { t } = useTranslation(text)
  return (
    <ol className={classes.steps} aria-live="polite">
      {names.map((name) => {
        const step = steps.find((one) => one.name === name)
        return (
          <li key={name}>
            <Badge tone={step ? (step.ok ? 'live' : 'bad') : 'off'}>{t(`test.${name}`)}</Badge>
            <span className={step?.error ? undefined : 'soft'}>
              {step ? step.error || t(`test.fine.${name}`) : t('test.notReached')}
            </span>
          </li>
        )
      })}
    </ol>
  )
}
