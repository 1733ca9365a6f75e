import { Button, NumberInput, type NumberInputProps } from '@mantine/core'
import { IconPlayerPlay, IconPlayerStop } from '@tabler/icons-react'
import classes from './Diagnostics.module.css'

interface PortProps extends Pick<NumberInputProps, 'label' | 'placeholder' | 'error'> {
  value: number | ''
  onChange: (port: number | '') => void
}

export function Port({ onChange, ...props }: PortProps) {
  return (
    <NumberInput
      {...props}
      onChange={(value) => onChange(value === '' ? '' : Number(value))}
      min={1}
      max={65_535}
      allowDecimal={false}
      hideControls
    />
  )
}

interface RunOrStopProps {
  running: boolean
  run: string
  stop: string
  /** Whether the form is complete enough to run. */
  ready: boolean
  onStop: () => void
}

/** The button that submits the form, or stops the run. */
export function RunOrStop({ running, run, stop, ready, onStop }: RunOrStopProps) {
  if (running) {
    return (
      <Button
        className={classes.act}
        variant="default"
        leftSection={<IconPlayerStop size={16} />}
        onClick={onStop}
        type="button"
      >
        {stop}
      </Button>
    )
  }
  return (
    <Button className={classes.act} type="submit" leftSection={<IconPlayerPlay size={16} />} disabled={!ready}>
      {run}
    </Button>
  )
}
