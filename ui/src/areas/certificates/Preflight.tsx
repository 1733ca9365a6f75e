import { Button } from '@mantine/core'
import { IconChecklist } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Findings } from '../../api/types'
import type { Values } from '../../kit/form/fields'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import classes from './Certificates.module.css'

interface Question {
  names: string[]
  challenge: 'http-01' | 'dns-01'
  dns_provider_id: string | null
}

/** Checks whether an order would succeed, before it counts against the authority's rate limit. */
export function Preflight({ values }: { values: Values }) {
  const { t } = useTranslation('certificates')
  const { names, challenge, dns_provider_id } = values as unknown as Question
  const question: Question = { names, challenge, dns_provider_id: dns_provider_id ?? null }
  const ask = useMutation({
    mutationFn: (body: Question) =>
      unwrap(
        http.POST('/certificates/preflight', { body: { ...body, dns_provider_id: body.dns_provider_id ?? undefined } }),
      ),
  })
  // A result for other names does not apply to these.
  const current = JSON.stringify(ask.variables) === JSON.stringify(question)
  return (
    <section className={classes.preflight} aria-label={t('preflight.title')}>
      <div className={classes.buttons}>
        <Button
          variant="default"
          leftSection={<IconChecklist size={16} aria-hidden />}
          disabled={!names?.length}
          loading={ask.isPending}
          onClick={() => ask.mutate(question)}
        >
          {t('preflight.verb')}
        </Button>
        <span className="soft">{t('preflight.help')}</span>
      </div>
      {current && ask.isError && <FaultNotice fault={ask.error} />}
      {current && ask.data && <Outcome found={ask.data} />}
    </section>
  )
}

function Outcome({ found }: { found: Findings }) {
  const { t } = useTranslation('certificates')
  return (
    <>
      <Notice tone={found.ok ? 'live' : 'warn'}>{t(found.ok ? 'preflight.ok' : 'preflight.bad')}</Notice>
      <ul className={classes.findings}>
        {found.findings.map(({ name, check, ok, detail }) => (
          <li key={`${check} ${name}`}>
            <Badge tone={ok ? 'live' : 'bad'}>{t(`preflight.checks.${check}`)}</Badge>
            <span>
              {name && <span className="mono">{name} </span>}
              <span className={ok ? 'soft' : undefined}>{detail}</span>
            </span>
          </li>
        ))}
      </ul>
    </>
  )
}
