import {
  Autocomplete,
  type ComboboxData,
  Input,
  NumberInput,
  Radio,
  SegmentedControl,
  Switch,
  TagsInput,
  Textarea,
  TextInput,
} from '@mantine/core'
import { type ReactNode, useRef } from 'react'
import { type Control, Controller } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import type { FieldOf, Kind, ShownOf } from '../../api/resource'
import { optionalText } from '../../i18n/i18n'
import { Choice, Choices, type Creation } from './Choice'
import { CodeText } from './CodeText'
import type { Values } from './form-values'
import { Password, SecretToMake } from './Password'
import { PemText } from './PemText'
import { Quantity } from './Quantity'
import { type RowColumn, Rows } from './Rows'

export type { Values }

/** A field of a form. Its name is the API's, or the form's own if its shape splits or merges fields. */
export interface FieldSpec<Name extends string = string, Covered extends string = Name, Shown extends string = Name> {
  name: Name
  type:
    | 'text'
    | 'mono'
    | 'email'
    | 'password'
    | 'number'
    | 'switch'
    | 'choice'
    | 'segments'
    | 'list'
    | 'labels'
    | 'select'
    | 'suggest'
    | 'members'
    | 'note'
    | 'size'
    | 'span'
    | 'pem'
    | 'pem-key'
    | 'code'
    | 'rows'
  /**
   * For a choice or segments: the values, if not all that the API has. Their texts are at `<field>.options.<value>`.
   */
  options?: readonly string[]
  /** For a choice: notes about some of the values. */
  remarks?: Record<string, string>
  /** For a select, members, labels, a list or a suggestion: the choices and their labels. */
  choices?: ComboboxData
  /** For a select: creates a choice from a text that is not one. */
  create?: Creation
  /** Starts a section; its title is at `sections.<section>`. */
  section?: string
  /** API fields whose errors are shown here, if this field stands for several. */
  covers?: readonly Covered[]
  /** For rows: their columns. */
  columns?: readonly RowColumn[]
  /** Overrides whether the API requires it. The same applies to its limits. */
  required?: boolean
  /** For a secret: the field that tells whether one is stored, or a function of the stored row. */
  configured?: Shown | ((row: Values) => boolean)
  min?: number
  max?: number
  /** For a secret: generates one. */
  generate?: () => string
  /** Help and example that depend on other fields. */
  help?: (values: Values) => ReactNode
  placeholder?: (values: Values) => string
  /** Splits a typed text that belongs in several fields; undefined if it does not. */
  split?: (text: string) => Values | undefined
  /** Whether to show the field, depending on the other fields or the stored row. */
  when?: (values: Values, row: Values) => boolean
}

/** The fields of a form for a kind, including those of the form's own. */
export type Fields<K extends Kind, Own extends string = never> = KindField<K, Own>[]
export type KindField<K extends Kind, Own extends string = never> = FieldSpec<
  FieldOf<K> | Own,
  FieldOf<K> | `${FieldOf<K>}.${string}`,
  ShownOf<K>
>

/** A field that is never shown, and keeps the stored value if empty. */
export const isSecret = ({ type }: FieldSpec) => type === 'password' || type === 'pem-key'

interface FieldProps {
  spec: FieldSpec
  text: string
  control: Control<Values>
  values: Values
  /** Focus this field when the form opens in a drawer. */
  autoFocus?: boolean
  disabled?: boolean
  /** Whether an empty field keeps a stored secret; undefined for fields that cannot have one. */
  kept?: boolean
  /** Called with the values if the typed text belongs in several fields. */
  onSplit?: (values: Values) => void
}

/** One field. Its label, help and placeholder come from the form's texts, by the field's name. */
export function Field({ spec, text, control, values, autoFocus, disabled, kept, onSplit }: FieldProps) {
  const { t } = useTranslation()
  const key = `${text}.${spec.name}`
  /** Typed text that is not one of the choices. It is not saved, but not discarded either. */
  const typed = useRef<string | null>(null)
  const onTyped = (next: string | null) => {
    typed.current = next
  }
  return (
    <Controller
      name={spec.name}
      control={control}
      rules={{
        required: spec.required && t('required'),
        validate: () => typed.current === null || t('choice.not', { text: typed.current }),
      }}
      render={({ field: { value, ...field }, fieldState }) => {
        const common = {
          ...field,
          label: t(`${key}.label`),
          description: spec.help?.(values) ?? optionalText(`${key}.help`),
          placeholder:
            kept === undefined
              ? (spec.placeholder?.(values) ?? optionalText(`${key}.placeholder`))
              : t(kept ? 'secret.kept' : 'secret.none'),
          error: fieldState.error?.message,
          withAsterisk: spec.required,
          disabled,
          'data-autofocus': autoFocus || undefined,
        }
        switch (spec.type) {
          case 'switch': {
            const { placeholder: _, withAsterisk: __, ...rest } = common
            return <Switch {...rest} checked={Boolean(value)} />
          }
          case 'number':
            return (
              <NumberInput
                {...common}
                value={(value as number | null) ?? ''}
                onChange={(next) => field.onChange(next === '' ? null : next)}
                min={spec.min}
                max={spec.max}
                allowDecimal={false}
                clampBehavior="none"
              />
            )
          case 'list':
            return (
              <TagsInput
                {...common}
                value={(value as string[] | undefined) ?? []}
                data={spec.choices}
                classNames={{ pill: 'mono', option: 'mono' }}
                splitChars={[',', ' ', ';']}
                acceptValueOnBlur
                comboboxProps={{ shadow: 'md' }}
              />
            )
          case 'choice': {
            const { placeholder: _, ...rest } = common
            return (
              <Radio.Group {...rest} value={String(value ?? '')}>
                {spec.options?.map((option) => (
                  <Radio
                    key={option}
                    value={option}
                    label={t(`${key}.options.${option}`)}
                    description={spec.remarks?.[option]}
                    mt={6}
                  />
                ))}
              </Radio.Group>
            )
          }
          case 'segments':
            return (
              <Input.Wrapper label={common.label} description={common.description} error={common.error}>
                <div>
                  <SegmentedControl
                    aria-label={common.label}
                    size="sm"
                    fullWidth
                    disabled={disabled}
                    value={String(value ?? '')}
                    onChange={field.onChange}
                    data={(spec.options ?? []).map((one) => ({ value: one, label: t(`${key}.options.${one}`) }))}
                  />
                </div>
              </Input.Wrapper>
            )
          case 'labels':
            return (
              <TagsInput
                {...common}
                value={(value as string[] | undefined) ?? []}
                data={spec.choices}
                splitChars={[',', ';']}
                acceptValueOnBlur
                comboboxProps={{ shadow: 'md' }}
              />
            )
          case 'select':
            return (
              <Choice
                {...common}
                value={(value as string | null | undefined) ?? null}
                data={spec.choices}
                clearable={!spec.required}
                create={spec.create}
                onTyped={onTyped}
              />
            )
          case 'suggest':
            return (
              <Autocomplete
                {...common}
                value={String(value ?? '')}
                data={spec.choices as string[]}
                openOnFocus={false}
                classNames={{ input: 'mono', option: 'mono' }}
                limit={100}
                autoComplete="off"
                spellCheck={false}
                comboboxProps={{ shadow: 'md' }}
              />
            )
          case 'members':
            return (
              <Choices
                {...common}
                value={(value as string[] | undefined) ?? []}
                data={spec.choices}
                onTyped={onTyped}
              />
            )
          case 'note':
            return <Textarea {...common} value={String(value ?? '')} rows={3} resize="vertical" />
          case 'size':
          case 'span':
            return (
              <Quantity
                {...common}
                scale={spec.type}
                value={(value as number | null) ?? null}
                min={spec.min}
                max={spec.max}
              />
            )
          case 'pem':
          case 'pem-key':
            return <PemText {...common} value={String(value ?? '')} secret={spec.type === 'pem-key'} />
          case 'code':
            return <CodeText {...common} value={String(value ?? '')} />
          case 'rows':
            return (
              <Rows {...common} text={key} columns={spec.columns ?? []} value={(value as Values[] | undefined) ?? []} />
            )
          case 'password':
            return spec.generate ? (
              <SecretToMake {...common} value={String(value ?? '')} make={spec.generate} />
            ) : (
              <Password {...common} value={String(value ?? '')} autoComplete="new-password" />
            )
          default:
            return (
              <TextInput
                {...common}
                value={String(value ?? '')}
                type={spec.type === 'email' ? 'email' : 'text'}
                onBlur={() => {
                  const parts = spec.split?.(String(value ?? ''))
                  if (parts) onSplit?.(parts)
                  field.onBlur()
                }}
                classNames={spec.type === 'mono' ? { input: 'mono' } : undefined}
                autoComplete="off"
                spellCheck={spec.type === 'text'}
              />
            )
        }
      }}
    />
  )
}
