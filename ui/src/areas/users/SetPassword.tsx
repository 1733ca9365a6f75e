import { Button } from '@mantine/core'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import type { User } from '../../api/types'
import { placeFault } from '../../kit/form/form-errors'
import { Password } from '../../kit/form/Password'
import { toast, toastFault } from '../../kit/state/toast'
import classes from './Users.module.css'

export function SetPassword({ user }: { user: User }) {
  const { t } = useTranslation('users')
  const canEdit = useCanEdit()
  const { register, handleSubmit, setError, reset, formState } = useForm({ defaultValues: { password: '' } })
  if (!canEdit) return null
  const submit = handleSubmit(async (body) => {
    try {
      await unwrap(http.POST('/users/{id}/password', { params: { path: { id: user.id } }, body }))
      toast('live', t('password.done', { email: user.email }))
      reset()
    } catch (cause) {
      const fault = toFault(cause)
      if (placeFault(fault, ['password'], setError)) toastFault(fault)
    }
  })
  return (
    <form className={classes.section} onSubmit={submit} noValidate>
      <Password
        label={t('password.label')}
        description={t('password.help')}
        autoComplete="new-password"
        error={formState.errors.password?.message}
        {...register('password', { required: t('common:required') })}
      />
      <Button type="submit" variant="default" loading={formState.isSubmitting}>
        {t('password.verb')}
      </Button>
    </form>
  )
}
