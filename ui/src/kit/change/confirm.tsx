import { Button, Group, Modal } from '@mantine/core'
import { type ReactNode, useEffect, useState, useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { type Fault, toFault } from '../../api/fault'
import { Notice } from '../state/Notice'
import { Things } from '../text/Things'

interface Question {
  title: string
  text: ReactNode
  verb: string
  danger?: boolean
  /** Called when the dialog opens: why it cannot be done, or null. */
  obstacle?: () => Promise<Fault | null>
  /** Runs while the dialog is open, which shows a refusal and what is in the way. */
  act?: () => Promise<unknown>
  /** Another way to agree, which an obstacle does not disable. */
  other?: { verb: string; act: () => Promise<unknown> }
}

interface Asked extends Question {
  answer: (yes: boolean) => void
}

let asked: Asked | null = null
const listeners = new Set<() => void>()
function set(next: Asked | null) {
  asked = next
  for (const listener of listeners) listener()
}
function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Asks one question and resolves to the answer. There is only one dialog, so dialogs never stack. */
export function confirm(question: Question): Promise<boolean> {
  asked?.answer(false)
  return new Promise((resolve) => {
    set({
      ...question,
      answer: (yes) => {
        set(null)
        resolve(yes)
      },
    })
  })
}

export function ConfirmHost() {
  const question = useSyncExternalStore(subscribe, () => asked)
  return question && <ConfirmDialog question={question} />
}

function ConfirmDialog({ question }: { question: Asked }) {
  const { t } = useTranslation()
  const [busy, setBusy] = useState(false)
  const [asking, setAsking] = useState(Boolean(question.obstacle))
  const [fault, setFault] = useState<Fault | null>(null)

  useEffect(() => {
    let open = true
    const done = (found: Fault | null) => {
      if (!open) return
      setFault(found)
      setAsking(false)
    }
    // If the check fails, let the user try.
    question.obstacle?.().then(done, () => done(null))
    return () => {
      open = false
    }
  }, [question])

  const agree = async (act: Question['act']) => {
    setBusy(true)
    try {
      await act?.()
      question.answer(true)
    } catch (cause) {
      setFault(toFault(cause))
      setBusy(false)
    }
  }

  return (
    <Modal
      opened
      onClose={() => question.answer(false)}
      title={question.title}
      centered
      zIndex={400}
      closeButtonProps={{ 'aria-label': t('close') }}
    >
      {question.text}
      {fault && (
        <Notice tone="bad" title={fault.message}>
          {fault.usedBy.length > 0 && <Things things={fault.usedBy} onGo={() => question.answer(false)} />}
        </Notice>
      )}
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={() => question.answer(false)} data-autofocus>
          {t('cancel')}
        </Button>
        {question.other && (
          <Button variant="default" onClick={() => agree(question.other?.act)} disabled={asking || busy}>
            {question.other.verb}
          </Button>
        )}
        <Button
          color={question.danger ? 'red.8' : undefined}
          onClick={() => agree(question.act)}
          loading={busy}
          disabled={asking || fault?.code === 'conflict'}
        >
          {question.verb}
        </Button>
      </Group>
    </Modal>
  )
}
