import { Button, Group, PasswordInput, type PasswordInputProps } from '@mantine/core'
import { IconDice5 } from '@tabler/icons-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { CopyButton } from '../page/CopyText'

/** A password field whose parts can all be reached by keyboard, and whose error is announced by screen readers. */
export function Password(props: PasswordInputProps) {
  const { t } = useTranslation()
  return (
    <PasswordInput
      aria-invalid={props.error ? true : undefined}
      visibilityToggleButtonProps={{ 'aria-label': t('showTyped'), tabIndex: 0 }}
      {...props}
    />
  )
}

interface SecretToMakeProps extends Omit<PasswordInputProps, 'onChange'> {
  onChange: (secret: string) => void
  make: () => string
}

/** A secret to pass on to someone: typed, or generated here and shown until saved. */
export function SecretToMake({ onChange, make, ...field }: SecretToMakeProps) {
  const { t } = useTranslation()
  const [made, setMade] = useState('')
  const [visible, setVisible] = useState(false)
  const generate = () => {
    const secret = make()
    setMade(secret)
    setVisible(true)
    onChange(secret)
  }
  return (
    <div>
      <Password
        {...field}
        autoComplete="new-password"
        visible={visible}
        onVisibilityChange={setVisible}
        onChange={(event) => onChange(event.currentTarget.value)}
        classNames={{ innerInput: 'mono' }}
      />
      <Group gap="xs" mt={6}>
        <Button
          size="compact-sm"
          variant="default"
          disabled={field.disabled}
          leftSection={<IconDice5 size={14} aria-hidden />}
          onClick={generate}
        >
          {t('secret.make')}
        </Button>
        {made && field.value === made && (
          <>
            <CopyButton text={made} />
            <span className="soft">{t('secret.once')}</span>
          </>
        )}
      </Group>
    </div>
  )
}
