import { Button } from '@mantine/core'
import { IconCheck, IconCopy } from '@tabler/icons-react'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { toast } from '../state/toast'
import classes from './CopyText.module.css'

/** Copies a text to the clipboard, and says so on the button. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const { t } = useTranslation()
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    const timer = copied && setTimeout(() => setCopied(false), 2000)
    return () => clearTimeout(timer || undefined)
  }, [copied])
  const Icon = copied ? IconCheck : IconCopy
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<Icon size={14} aria-hidden />}
      onClick={() =>
        navigator.clipboard.writeText(text).then(
          () => setCopied(true),
          () => toast('warn', t('copy.failed')),
        )
      }
    >
      <span aria-live="polite">{copied ? t('copy.done') : (label ?? t('copy.verb'))}</span>
    </Button>
  )
}

/** A text with a button to copy it. */
export function CopyText({ text, label }: { text: string; label: string }) {
  return (
    <section className={classes.copy} aria-label={label}>
      <code className="mono">{text}</code>
      <CopyButton text={text} />
    </section>
  )
}
