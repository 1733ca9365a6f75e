import { PasswordInput, type PasswordInputProps } from '@mantine/core'

/** A password field. The library's own does not tell screen readers that its value was refused. */
export function Password(props: PasswordInputProps) {
  return <PasswordInput aria-invalid={props.error ? true : undefined} {...props} />
}
