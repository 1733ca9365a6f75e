import { Button, FileButton, Textarea, type TextareaProps } from '@mantine/core'
import { IconFileUpload } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'

interface PemTextProps extends Omit<TextareaProps, 'onChange'> {
  onChange: (text: string) => void
  /** A key: nobody should read it from the screen. */
  secret?: boolean
}

/** A certificate or a key as text: pasted, or read from a file. */
export function PemText({ onChange, secret, ...field }: PemTextProps) {
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
      <FileButton
        accept=".pem,.crt,.cer,.key,.txt"
        disabled={field.disabled}
        onChange={(file) => void file?.text().then(onChange)}
      >
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
