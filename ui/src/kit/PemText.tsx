import { Button, FileButton, Textarea, type TextareaProps } from '@mantine/core'
import { IconFileUpload } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'

interface PemTextProps extends Omit<TextareaProps, 'onChange'> {
  onChange: (text: string) => void
  /** A key: nobody should read it from the screen. */
  secret?: boolean
  /** How the names of such files end. */
  accept?: string
}

/** A certificate, a key or what else is kept in a file, as text: pasted, or read from the file. */
export function PemText({ onChange, secret, accept = '.pem,.crt,.cer,.key,.txt', ...field }: PemTextProps) {
  const { t } = useTranslation()
  return (
    <div>
      <Textarea
        {...field}
        onChange={(event) => onChange(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
        styles={secret ? { input: { WebkitTextSecurity: 'disc' } as object } : undefined}
        rows={secret ? 4 : 7}
        resize="vertical"
        autoComplete="off"
        spellCheck={false}
      />
      <FileButton accept={accept} disabled={field.disabled} onChange={(file) => void file?.text().then(onChange)}>
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
