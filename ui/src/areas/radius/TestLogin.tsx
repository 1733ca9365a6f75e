import { Autocomplete, Button, Input, SegmentedControl } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useLocation } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Data } from '../../api/resource'
import { radiusUsers } from '../../api/resources'
import { Password } from '../../kit/form/Password'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import classes from './Radius.module.css'
import { loginsQuery } from './resources'

/** Logs in as a device would, and shows the server's answer. */
export default function TestLogin() {
  const { t } = useTranslation('radius')
  const queries = useQueryClient()
  const users = useQuery({ queryKey: [radiusUsers.kind], queryFn: radiusUsers.list })
  const [name, setName] = useState((useLocation().state as { name?: string }).name ?? '')
  const [password, setPassword] = useState('')
  const [method, setMethod] = useState<'pap' | 'chap'>('pap')
  const test = useMutation({
    mutationFn: () => unwrap(http.POST('/radius/test', { body: { name, password, method } })),
    onSettled: () => queries.invalidateQueries(loginsQuery),
  })
  // The result of another attempt does not apply to this one.
  const change =
    <T,>(set: (value: T) => void) =>
    (value: T) => {
      test.reset()
      set(value)
    }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    test.mutate()
  }
  return (
    <DetailDrawer title={t('test.title')} back={paths.radius}>
      <form className={classes.test} onSubmit={submit}>
        <p className="soft">{t('test.lead')}</p>
        <Autocomplete
          label={t('user.name.label')}
          data={(users.data ?? []).map((user) => user.name)}
          value={name}
          onChange={change(setName)}
          classNames={{ input: 'mono', option: 'mono' }}
          limit={20}
          openOnFocus={false}
          autoComplete="off"
          data-autofocus={name ? undefined : true}
        />
        <Password
          label={t('user.password.label')}
          value={password}
          onChange={(event) => change(setPassword)(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus={name ? true : undefined}
        />
        <Input.Wrapper label={t('test.method')} description={t(`test.methodHelp.${method}`)}>
          <div>
            <SegmentedControl
              aria-label={t('test.method')}
              value={method}
              onChange={(value) => change(setMethod)(value as typeof method)}
              data={[
                { value: 'pap', label: 'PAP' },
                { value: 'chap', label: 'CHAP' },
              ]}
            />
          </div>
        </Input.Wrapper>
        <Button type="submit" loading={test.isPending} disabled={!name || !password} className={classes.submit}>
          {t('test.verb')}
        </Button>
        {test.isError && <FaultNotice fault={test.error} />}
        {test.data && <Outcome tested={test.data} />}
      </form>
    </DetailDrawer>
  )
}

function Outcome({ tested }: { tested: Data<'/radius/test', 'post'> }) {
  const { t } = useTranslation('radius')
  if (tested.error) {
    return (
      <Notice tone="warn" title={t('test.unanswered')}>
        {tested.error}
      </Notice>
    )
  }
  const time = t('test.took', { ms: tested.duration_ms.toFixed(1) })
  return (
    <>
      <Notice tone={tested.accepted ? 'live' : 'bad'} title={t(tested.accepted ? 'login.accepted' : 'login.rejected')}>
        {time}
      </Notice>
      {tested.accepted && (
        <section aria-label={t('test.reply')}>
          <h3>{t('test.reply')}</h3>
          {tested.attributes.length > 0 ? (
            <ul className="mono">
              {tested.attributes.map((attribute) => (
                <li key={attribute}>{attribute}</li>
              ))}
            </ul>
          ) : (
            <p className="soft">{t('test.noReply')}</p>
          )}
        </section>
      )}
    </>
  )
}
