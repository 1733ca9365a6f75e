import { Button } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { oidcSettings } from '../../api/resources'
import { addTexts } from '../../i18n/i18n'
import type { Fields, Values } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { TestSteps } from '../../kit/job/TestSteps'
import { CopyText } from '../../kit/page/CopyText'
import { Page, Panel } from '../../kit/page/Page'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import en from './en.json'
import classes from './Sso.module.css'

addTexts('sso', en)

const fields: Fields<'oidc.settings'> = [
  { name: 'enabled', type: 'switch' },
  { name: 'issuer', type: 'mono' },
  { name: 'client_id', type: 'mono' },
  { name: 'client_secret', type: 'password', configured: 'client_secret_configured' },
  { name: 'scopes', type: 'list' },
  { name: 'allow_internal', type: 'switch' },
]

export default function SsoPage() {
  const { t } = useTranslation('sso')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Panel title={t('register.title')}>
        <RedirectURI />
      </Panel>
      <Panel title={t('settings.title')}>
        <SettingsForm
          singleton={oidcSettings}
          text="sso:settings"
          fields={fields}
          preview={false}
          below={(values) => <TestConnection values={values} />}
        />
      </Panel>
    </Page>
  )
}

/** What the identity provider must know about this gateway. */
function RedirectURI() {
  const { t } = useTranslation('sso')
  const status = useQuery({ queryKey: ['setup', 'status'], queryFn: () => unwrap(http.GET('/setup/status')) })
  return (
    <Loaded query={status} height={60}>
      {({ fqdn }) => (
        <div className={classes.register}>
          <p>{t('register.text')}</p>
          <CopyText text={`https://${fqdn}/api/v1/auth/oidc/callback`} label={t('register.uri')} />
          {location.hostname !== fqdn && <Notice tone="warn">{t('register.elsewhere', { fqdn })}</Notice>}
        </div>
      )}
    </Loaded>
  )
}

const steps = ['discovery', 'issuer', 'keys'] as const

/** Tests the provider in the form, saved or not. */
function TestConnection({ values }: { values: Values }) {
  const { t } = useTranslation('sso')
  const { issuer, allow_internal } = values as { issuer: string; allow_internal: boolean }
  const test = useMutation({
    mutationFn: (body: { issuer: string; allow_internal: boolean }) => unwrap(http.POST('/oidc/test', { body })),
  })
  // A result for another provider does not apply to this one.
  const current = test.variables?.issuer === issuer && test.variables.allow_internal === allow_internal
  return (
    <section className={classes.test} aria-label={t('test.title')}>
      <div className={classes.testHead}>
        <Button
          variant="default"
          disabled={!issuer}
          loading={test.isPending}
          onClick={() => test.mutate({ issuer, allow_internal })}
        >
          {t('test.verb')}
        </Button>
        <span className="soft">{t('test.help')}</span>
      </div>
      {current && test.isError && <FaultNotice fault={test.error} />}
      {current && test.data && <TestSteps text="sso:test" names={steps} steps={test.data.steps} />}
    </section>
  )
}
