import { Button, Checkbox, CloseButton, Input, NumberInput, TextInput } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { optionalText } from '../../i18n/i18n'
import classes from './Rows.module.css'

export interface RowColumn {
  name: string
  type: 'text' | 'mono' | 'number' | 'switch'
  /** Its width in sixths of a line. */
  span: number
}

type Row = Record<string, unknown>

const nothing = { text: '', mono: '', number: null, switch: false }

interface RowsProps {
  label: string
  description?: ReactNode
  error?: string
  disabled?: boolean
  /** Where its texts are: none, add, and `columns.<name>`. */
  text: string
  columns: readonly RowColumn[]
  value: Row[]
  onChange: (rows: Row[]) => void
}

/** A list of small items inside a form, edited and removed in place. */
export function Rows({ label, description, error, disabled, text, columns, value, onChange }: RowsProps) {
  const { t } = useTranslation()
  const set = (index: number, part: Row) => onChange(value.map((row, at) => (at === index ? { ...row, ...part } : row)))
  const empty = Object.fromEntries(columns.map(({ name, type }) => [name, nothing[type]]))
  return (
    <Input.Wrapper label={label} description={description} error={error} labelElement="div">
      <fieldset className={classes.rows} aria-label={label}>
        {value.length === 0 && <p className="soft">{t(`${text}.none`)}</p>}
        {value.map((row, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the rows of a form have no ids.
          <div key={index} className={classes.row}>
            <div className={classes.fields}>
              {columns.map(({ name, type, span }) => {
                const common = {
                  size: 'xs',
                  label: t(`${text}.columns.${name}`),
                  'aria-label': t('rows.field', { name: t(`${text}.columns.${name}`), number: index + 1 }),
                  placeholder: optionalText(`${text}.examples.${name}`),
                  style: { gridColumn: `span ${span}` },
                  disabled,
                }
                if (type === 'switch')
                  return (
                    <Checkbox
                      key={name}
                      {...common}
                      checked={Boolean(row[name])}
                      onChange={(event) => set(index, { [name]: event.currentTarget.checked })}
                    />
                  )
                return type === 'number' ? (
                  <NumberInput
                    key={name}
                    {...common}
                    classNames={{ input: 'mono' }}
                    hideControls
                    allowDecimal={false}
                    value={(row[name] as number | null) ?? ''}
                    onChange={(next) => set(index, { [name]: next === '' ? null : next })}
                  />
                ) : (
                  <TextInput
                    key={name}
                    {...common}
                    classNames={type === 'mono' ? { input: 'mono' } : undefined}
                    autoComplete="off"
                    spellCheck={type === 'text'}
                    value={String(row[name] ?? '')}
                    onChange={(event) => set(index, { [name]: event.currentTarget.value })}
                  />
                )
              })}
            </div>
            {!disabled && (
              <CloseButton
                aria-label={t('rows.remove', { name: label, number: index + 1 })}
                onClick={() => onChange(value.filter((_, at) => at !== index))}
              />
            )}
          </div>
        ))}
        {!disabled && (
          <Button
            className={classes.add}
            size="compact-sm"
            variant="default"
            leftSection={<IconPlus size={14} aria-hidden />}
            onClick={() => onChange([...value, empty])}
          >
            {t(`${text}.add`)}
          </Button>
        )}
      </fieldset>
    </Input.Wrapper>
  )
}
