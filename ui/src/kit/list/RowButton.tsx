import { Button } from '@mantine/core'
import type { ReactNode } from 'react'
import { confirm } from '../change/confirm'
import { toast } from '../state/toast'

interface RowButtonProps {
  verb: string
  /** What it acts on, for screen readers. */
  name: string
  question: { title: string; text: ReactNode }
  act: () => Promise<unknown>
  done: string
}

/** A button at the end of a row that removes something, after a question. */
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
