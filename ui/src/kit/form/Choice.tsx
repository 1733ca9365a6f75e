import {
  type ComboboxData,
  getOptionsLockup,
  getParsedComboboxData,
  MultiSelect,
  type MultiSelectProps,
  Select,
  type SelectProps,
} from '@mantine/core'
import { type FocusEvent, type FormEvent, type ReactNode, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'

/** No one reads more than this; the search finds the rest. */
const shownChoices = 100

interface Typing {
  /** Called with the typed text while it is not a choice, else with null. */
  onTyped?: (text: string | null) => void
}

/**
 * The typed text of a field with choices. It stays until it is a choice or is removed, and the field shows an error: a
 * field never shows one thing and saves another.
 */
function useTyped(data: ComboboxData | undefined, error: ReactNode, onTyped: Typing['onTyped']) {
  const { t } = useTranslation()
  const [text, setText] = useState<string | null>(null)
  const [left, setLeft] = useState(false)
  const choices = useMemo(() => getOptionsLockup(getParsedComboboxData(data ?? [])), [data])
  const named = (label: string) =>
    Object.values(choices).find((choice) => choice?.label.toLowerCase() === label.trim().toLowerCase())?.value as
      | string
      | undefined
  const put = (next: string | null) => {
    setText(next)
    onTyped?.(next !== null && named(next) === undefined ? next : null)
  }
  // While typing, the text need not be a choice yet.
  const wrong = text?.trim() && named(text) === undefined && (left || error) ? t('choice.not', { text }) : undefined
  return {
    text,
    named,
    put,
    labelOf: (value: string | null | undefined) => (value ? choices[value]?.label : undefined) ?? '',
    field: {
      data,
      searchable: true,
      // A list that opens on focus would cover the error that moved the focus here.
      openOnFocus: false,
      limit: shownChoices,
      nothingFoundMessage: t('choice.none'),
      comboboxProps: { shadow: 'md' },
      error: wrong ?? error,
    } as const,
    setLeft,
  }
}

const selectText = ({ currentTarget }: { currentTarget: HTMLInputElement }) => currentTarget.select()

/** Creates a choice from a text that is not one. */
export interface Creation {
  /** The label of the offer, which contains the text; undefined if the text is unsuitable. */
  offer: (text: string) => string | undefined
  /** Creates it and returns its value; undefined if that fails. */
  make: (text: string) => Promise<string | undefined>
}

/** The value of the option that creates a choice. */
const creating = '+'

/** A select with search: typing replaces what the field shows. */
export function Choice(all: SelectProps & Typing & { create?: Creation }) {
  const { data, value, onChange, onBlur, onTyped, error, create, ...props } = all
  const { t } = useTranslation()
  const { text, named, put, labelOf, field, setLeft } = useTyped(data, error, onTyped)
  const offer = text !== null && named(text) === undefined ? create?.offer(text) : undefined
  const settle = (next: string | null) => {
    put(null)
    // Even if unchanged: this also clears the error about the typed text.
    onChange?.(next, { value: next ?? '', label: labelOf(next) })
  }
  const submit = async (next: string) => {
    if (next !== creating) return settle(next)
    const made = await create?.make(text ?? '')
    if (made !== undefined) settle(made)
  }
  return (
    <Select
      clearButtonProps={{ 'aria-label': t('choice.clear') }}
      {...props}
      {...field}
      data={offer === undefined ? data : [...(data ?? []), { value: creating, label: offer }]}
      value={value ?? null}
      searchValue={text ?? labelOf(value)}
      allowDeselect={false}
      onOptionSubmit={submit}
      onClear={() => settle(null)}
      onFocus={(event) => {
        setLeft(false)
        selectText(event)
      }}
      onClick={(event) => text === null && selectText(event as never)}
      onInput={(event: FormEvent<HTMLInputElement>) => {
        const typed = event.currentTarget.value
        put(typed)
        const choice = named(typed)
        if (choice !== undefined) onChange?.(choice, { value: choice, label: labelOf(choice) })
      }}
      onBlur={(event: FocusEvent<HTMLInputElement>) => {
        setLeft(true)
        if (text !== null && (text.trim() === '' || named(text) !== undefined)) settle(named(text) ?? value ?? null)
        onBlur?.(event)
      }}
    />
  )
}

/** A multi-select with search. */
export function Choices({ data, value = [], onChange, onBlur, onTyped, error, ...props }: MultiSelectProps & Typing) {
  const { text, named, put, field, setLeft } = useTyped(data, error, onTyped)
  return (
    <MultiSelect
      hidePickedOptions
      {...props}
      {...field}
      value={value}
      searchValue={text ?? ''}
      onChange={(next) => {
        put(null)
        onChange?.(next)
      }}
      onFocus={() => setLeft(false)}
      onInput={(event: FormEvent<HTMLInputElement>) => put(event.currentTarget.value || null)}
      onBlur={(event: FocusEvent<HTMLInputElement>) => {
        setLeft(true)
        const choice = text === null ? undefined : named(text)
        if (choice !== undefined) {
          put(null)
          onChange?.([...new Set([...(value as string[]), choice])])
        }
        onBlur?.(event)
      }}
    />
  )
}
