import { getOptionsLockup, getParsedComboboxData } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { Code } from '../change/Diff'
import { OnOff } from '../state/StateBadge'
import type { FieldSpec, Values } from './fields'
import { isSecret } from './fields'
import { scales, unitOf } from './quantity-units'

interface FieldTextProps {
  spec: FieldSpec
  /** Where the texts of the form are. */
  text: string
  value: unknown
  /** Whether a secret is stored, which is never shown. */
  kept?: boolean
}

const isEmpty = (value: unknown) =>
  value === null ||
  value === undefined ||
  value === '' ||
  value === false ||
  (Array.isArray(value) && value.length === 0)

/** A field's value as text, for users who cannot change it. */
export function FieldText({ spec, text, value, kept }: FieldTextProps) {
  const { t } = useTranslation()
  const { type } = spec
  if (type === 'switch') return <OnOff on={Boolean(value)} />
  if (isSecret(spec)) return t(kept ? 'secret.set' : 'secret.none')
  if (isEmpty(value)) return '–'
  switch (type) {
    case 'choice':
    case 'segments':
      return t(`${text}.${spec.name}.options.${value}`)
    case 'select':
    case 'members': {
      const choices = getOptionsLockup(getParsedComboboxData(spec.choices ?? []))
      return [value]
        .flat()
        .map((one) => choices[String(one)]?.label ?? String(one))
        .join(', ')
    }
    case 'size':
    case 'span': {
      const [unit, factor] = scales[type][unitOf(type, value as number)] ?? ['', 1]
      return `${(value as number) / factor} ${unit}`
    }
    case 'rows':
      return (value as Values[]).map((row) => {
        const line = spec.columns
          ?.map(({ name, type: kind }) =>
            kind === 'switch' ? row[name] && t(`${text}.${spec.name}.columns.${name}`) : row[name],
          )
          .filter((part) => !isEmpty(part))
          .join(' · ')
        return <div key={line}>{line}</div>
      })
    case 'pem':
    case 'code':
      return <Code label={t(`${text}.${spec.name}.label`)} text={String(value)} />
    case 'list':
    case 'mono':
    case 'suggest':
      return <span className="mono">{[value].flat().join(', ')}</span>
    default:
      return [value].flat().join(', ')
  }
}
