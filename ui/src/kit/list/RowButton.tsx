import { Button } from '@mantine/core'
import type { ReactNode } from 'react'
import { confirm } from '../change/confirm'
import { toast } from '../state/toast'

interface RowButtonProps {
  verb: string
  /** What it is about, for those who do not see the row. */
  name: string
  question: { title: string; text: ReactNode }
  act: () => Promise<unknown>
  done: string
}

/** A button at the end of a row that takes something away: it asks first. */
export function RowButton({ verb, name, question, act, done }: RowButtonProps) {
  const ask = async () => {
    if (await confirm({ ...question, verb, danger: true, act })) toast('live', done)
  }
  return (
    <Button size="compact-sm" variant="subtle" color="red" aria-label={`${verb}: ${name}`} onClick={ask}>
      {verb}
    </Button>
  )
}
