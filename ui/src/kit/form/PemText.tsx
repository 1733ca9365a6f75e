import { Button, FileButton, Textarea, type TextareaProps } from '@mantine/core'
import { IconFileUpload } from '@tabler/icons-react'
import type { DragEvent } from 'react'
import { useTranslation } from 'react-i18next'

interface PemTextProps extends Omit<TextareaProps, 'onChange'> {
  onChange: (text: string) => void
  /** A key, which must not be readable on the screen. */
  secret?: boolean
  /** The file name extensions. */
  accept?: string
}

/** A certificate, a key or another text file: pasted, chosen or dropped. */
export function PemText({ onChange, secret, accept = '.pem,.crt,.cer,.key,.txt', ...field }: PemTextProps) {
  const { t } = useTranslation()
  const take = (file: File | null | undefined) => void file?.text().then(onChange)
  // By default a browser leaves the page to open a dropped file.
  const drop = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return
    event.preventDefault()
    if (event.type === 'drop' && !field.disabled) take(event.dataTransfer.files[0])
  }
  return (
    <div>
      <Textarea
        {...field}
        onDragOver={drop}
        onDrop={drop}
        onChange={(event) => onChange(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
        styles={secret ? { input: { WebkitTextSecurity: 'disc' } as object } : undefined}
        rows={field.rows ?? (secret ? 4 : 7)}
        resize="vertical"
        autoComplete="off"
        spellCheck={false}
      />
      <FileButton accept={accept} disabled={field.disabled} onChange={take}>
        {(button) => (
          <Button
            {...button}
            mt={6}
            size="compact-sm"
            variant="default"
            leftSection={<IconFileUpload size={14} aria-hidden />}
            aria-label={t('fileFor', { name: String(field.label) })}
          >
            {t('file')}
          </Button>
        )}
      </FileButton>
    </div>
  )
}
