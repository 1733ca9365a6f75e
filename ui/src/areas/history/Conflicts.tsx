import { Button, Radio } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import type { Reverted, RevertOptions } from '../../api/types'
import { fieldLabel, type Names, valueText } from '../../kit/change/kinds'
import { useNames } from '../../kit/change/names'
import { useTexts } from '../../kit/change/useTexts'
import { Notice } from '../../kit/state/Notice'
import { Time } from '../../kit/text/Time'
import { chosen, waysOf } from './conflict-logic'
import classes from './History.module.css'

type Conflict = Reverted['conflicts'][number]
export type Choices = NonNullable<RevertOptions['choices']>
const takes = ['then', 'now'] as const

interface ConflictsProps {
  /** Which texts to use: for a revert or for a draft. */
  text: 'revert' | 'draft'
  conflicts: readonly Conflict[]
  choices: Choices
  onChoices: (choices: Choices) => void
}

/** Conflicting later edits: the user keeps or overwrites each. */
export function Conflicts({ text, conflicts, choices, onChoices }: ConflictsProps) {
  const { t } = useTranslation('history')
  const names = useNames(conflicts.map(({ field }) => field))
  const ready = useTexts(conflicts.map(({ kind }) => kind))
  if (conflicts.length === 0 || !ready) return null
  const all = (take: (typeof takes)[number]) =>
    onChoices(conflicts.reduce<Choices>((made, conflict) => chosen(made, conflict, take), []))
  return (
    <section className={classes.step}>
      <Notice tone="warn" title={t(`${text}.conflicts`, { count: conflicts.length })} />
      {conflicts.length > 1 && (
        <div className={classes.actions}>
          {takes.map((take) => (
            <Button key={take} size="compact-sm" variant="default" onClick={() => all(take)}>
              {t(`${text}.all.${take}`)}
            </Button>
          ))}
        </div>
      )}
      {conflicts.map((conflict) => (
        <ConflictChoice
          key={`${conflict.kind} ${conflict.id} ${conflict.field}`}
          text={text}
          conflict={conflict}
          names={names}
          taken={choices.find((one) => one.id === conflict.id && one.field === conflict.field)?.take ?? null}
          onTake={(take) => onChoices(chosen(choices, conflict, take))}
        />
      ))}
    </section>
  )
}

interface ConflictChoiceProps extends Pick<ConflictsProps, 'text'> {
  conflict: Conflict
  names: Names
  taken: 'then' | 'now' | null
  onTake: (take: 'then' | 'now') => void
}

function ConflictChoice({ text, conflict, names, taken, onTake }: ConflictChoiceProps) {
  const { t } = useTranslation('history')
  const { kind, name, field, actor, at } = conflict
  const way = waysOf(conflict)
  // The values of secrets are not shown.
  const value = (take: 'then' | 'now') =>
    conflict.then === null && conflict.now === null ? t('revert.secret') : valueText(kind, field, conflict[take], names)
  return (
    <Radio.Group
      className={classes.conflict}
      label={[name, field && fieldLabel(kind, field)].filter(Boolean).join(': ')}
      description={
        <>
          {actor && `${t('revert.edited', { actor })} `}
          {at && <Time at={at} />}
          {Array.isArray(conflict.now) && field === '' && ` ${t('revert.with', { things: conflict.now.join(', ') })}`}
        </>
      }
      value={taken}
      onChange={(take) => onTake(take as 'then' | 'now')}
    >
      {takes.map((take) => (
        <Radio
          key={take}
          value={take}
          mt={6}
          label={t(`${text}.take.${way}.${take}`, way === 'field' ? { value: value(take) } : {})}
        />
      ))}
    </Radio.Group>
  )
}
