import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { users } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { User } from '../../api/types'
import { RowButton } from '../../kit/list/RowButton'
import { Badge } from '../../kit/state/StateBadge'
import classes from './Users.module.css'

/** The second factors of the user. */
export function Factors({ user }: { user: User }) {
  const { t } = useTranslation('users')
  const factors = [
    ...(user.totp_enabled ? [t('user.second.app')] : []),
    ...(user.passkeys > 0 ? [t('user.second.passkeys', { count: user.passkeys })] : []),
  ]
  if (factors.length === 0) return <Badge tone="off">{t('user.second.none')}</Badge>
  return <Badge tone="live">{factors.join(', ')}</Badge>
}

/** Resets the second factor of a user who has lost their phone or key. */
export function SecondFactor({ user }: { user: User }) {
  const { t } = useTranslation('users')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const path = { params: { path: { id: user.id } } }
  const refresh = () => queries.invalidateQueries({ queryKey: [users.kind] })
  const { email } = user
  return (
    <section className={classes.section} aria-label={t('user.second.label')}>
      <h3>{t('user.second.label')}</h3>
      <div className={classes.factors}>
        <Factors user={user} />
        {canEdit && user.totp_enabled && (
          <RowButton
            verb={t('second.app.verb')}
            name={email}
            question={{ title: t('second.app.title', { email }), text: t('second.app.text') }}
            act={() => unwrap(http.DELETE('/users/{id}/totp', path)).then(refresh)}
            done={t('second.app.done', { email })}
          />
        )}
        {canEdit && user.passkeys > 0 && (
          <RowButton
            verb={t('second.passkeys.verb')}
            name={email}
            question={{ title: t('second.passkeys.title', { email }), text: t('second.passkeys.text') }}
            act={() => unwrap(http.DELETE('/users/{id}/passkeys', path)).then(refresh)}
            done={t('second.passkeys.done', { email })}
          />
        )}
      </div>
    </section>
  )
}

/** The user's id at the identity provider, known after their first single sign-on. */
export function Subject({ user }: { user: User }) {
  const { t } = useTranslation('users')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  if (!user.oidc_subject) return null
  const { id, email } = user
  return (
    <section className={classes.section} aria-label={t('subject.label')}>
      <h3>{t('subject.label')}</h3>
      <div className={classes.factors}>
        <span className="mono">{user.oidc_subject}</span>
        {canEdit && (
          <RowButton
            verb={t('subject.verb')}
            name={email}
            question={{ title: t('subject.title', { email }), text: t('subject.text') }}
            act={async () => {
              await unwrap(http.DELETE('/users/{id}/oidc-subject', { params: { path: { id } } }))
              await queries.invalidateQueries({ queryKey: [users.kind] })
            }}
            done={t('subject.done', { email })}
          />
        )}
      </div>
    </section>
  )
}
