import { Button, Group, PasswordInput, type PasswordInputProps } from '@mantine/core'
import { IconDice5 } from '@tabler/icons-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { CopyButton } from '../page/CopyText'

/** A password field whose every part can be reached by keyboard and whose refusal is told to screen readers. */
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

/** A secret that somebody else has to be told: typed, or made here and shown until it is saved. */
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
