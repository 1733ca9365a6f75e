import { useTranslation } from 'react-i18next'
import { useMe } from '../../api/session'
import { Panel } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { OnOff } from '../../kit/state/StateBadge'
import { AuthenticatorApp } from './AuthenticatorApp'
import { Passkeys } from './Passkeys'

/** The second factors of a login. */
export default function SecondFactor() {
  const { t } = useTranslation('profile')
  const me = useMe()
  return (
    <>
      {!me.totp_enabled && me.passkeys === 0 && <Notice tone="warn">{t('second.none')}</Notice>}
      <Panel title={t('app.title')} aside={<OnOff on={me.totp_enabled} />}>
        <AuthenticatorApp />
      </Panel>
      <Panel title={t('passkey.title')} aside={<OnOff on={me.passkeys > 0} />}>
        <Passkeys />
      </Panel>
    </>
  )
}
