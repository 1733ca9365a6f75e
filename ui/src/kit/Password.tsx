import { PasswordInput, type PasswordInputProps } from '@mantine/core'
import { useTranslation } from 'react-i18next'

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
