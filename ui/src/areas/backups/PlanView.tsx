import './texts'
import { Button, Group, Select } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { RestorePlan } from '../../api/types'
import { Password } from '../../kit/form/Password'
import { Notice } from '../../kit/state/Notice'
import { count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import classes from './Backups.module.css'

export type Links = Record<string, string>

interface PlanViewProps {
  plan: RestorePlan
  /** Which interface of this machine replaces one from the backup. */
  links: Links
  onLinks: (links: Links) => void
  /** Errors about the interfaces, by API field. */
  complaints: Record<string, string>
}

/** What is in a backup, what prevents its restore, and which interfaces have other names here. */
export function PlanView({ plan, links, onLinks, complaints }: PlanViewProps) {
  const { t } = useTranslation('backups')
  return (
    <>
      <Facts plan={plan} />
      {plan.blockers.map((text) => (
        <Notice key={text} tone="bad" title={text} />
      ))}
      {plan.warnings.map((text) => (
        <Notice key={text} tone="warn" title={text} />
      ))}
      {plan.interfaces
        .filter(({ here }) => !here)
        .map(({ name }) => (
          <Select
            key={name}
            label={t('restore.link', { name })}
            placeholder={t('restore.noLink')}
            data={plan.links}
            value={links[name] ?? null}
            clearable
            onChange={(to) => {
              const { [name]: _, ...rest } = links
              onLinks(to ? { ...rest, [name]: to } : rest)
            }}
            error={complaints[`interfaces.${name}`]}
          />
        ))}
    </>
  )
}

function Facts({ plan }: { plan: RestorePlan }) {
  const { t } = useTranslation('backups')
  return (
    <dl className={classes.facts}>
      <dt>{t('restore.from')}</dt>
      <dd>
        {plan.host} · <Time at={plan.made_at} />
      </dd>
      <dt>{t('restore.version')}</dt>
      <dd>
        {plan.version === plan.this_version
          ? plan.version
          : t('restore.versions', { from: plan.version, to: plan.this_version })}
      </dd>
      <dt>{t('restore.data')}</dt>
      <dd>{t('restore.rows', { rows: count(plan.rows), count: plan.files.length })}</dd>
      <dt>{t('restore.key')}</dt>
      <dd>{t(`restore.keys.${plan.key}`)}</dd>
    </dl>
  )
}

interface PassphraseFormProps {
  wrong: boolean
  onOpen: (passphrase: string) => void
  /** Shown next to the button. */
  aside?: ReactNode
}

/** Asks for the passphrase of an encrypted backup. */
export function PassphraseForm({ wrong, onOpen, aside }: PassphraseFormProps) {
  const { t } = useTranslation('backups')
  const [typed, setTyped] = useState('')
  return (
    <form
      className={classes.stack}
      onSubmit={(event) => {
        event.preventDefault()
        onOpen(typed)
      }}
    >
      <Password
        label={t('restore.passphrase')}
        description={t('restore.passphraseHelp')}
        value={typed}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        error={wrong && t('restore.wrong')}
        data-autofocus
      />
      <Group justify="flex-end" gap="xs">
        {aside}
        <Button type="submit" disabled={!typed}>
          {t('restore.open')}
        </Button>
      </Group>
    </form>
  )
}
