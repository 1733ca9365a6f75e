import { NumberInput, type NumberInputProps } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './Quantity.module.css'
import { scales, unitOf } from './quantity-units'

interface QuantityProps extends Omit<NumberInputProps, 'value' | 'onChange'> {
  scale: keyof typeof scales
  /** In bytes or seconds. */
  value: number | null
  onChange: (value: number | null) => void
}

/** An amount with its unit, such as 10 MiB or 5 min. Stored in bytes or seconds. */
export function Quantity({ scale, value, onChange, min, max, ...field }: QuantityProps) {
  const { t } = useTranslation()
  const units = scales[scale]
  const [unit, setUnit] = useState(() => unitOf(scale, value))
  const factor = units[unit]?.[1] ?? 1
  const shown = value === null ? '' : value / factor
  return (
    <NumberInput
      {...field}
      value={shown}
      onChange={(next) => onChange(next === '' ? null : Math.round(Number(next) * factor))}
      min={min === undefined ? undefined : min / factor}
      max={max === undefined ? undefined : max / factor}
      clampBehavior="none"
      hideControls
      rightSectionWidth={84}
      rightSectionPointerEvents="all"
      rightSection={
        <select
          className={classes.unit}
          aria-label={t('unitOf', { name: String(field.label) })}
          disabled={field.disabled}
          value={unit}
          onChange={(event) => {
            const next = Number(event.currentTarget.value)
            setUnit(next)
            if (shown !== '') onChange(Math.round(shown * (units[next]?.[1] ?? 1)))
          }}
        >
          {units.map(([name], index) => (
            <option key={name} value={index}>
              {name}
            </option>
          ))}
        </select>
      }
    />
  )
}
