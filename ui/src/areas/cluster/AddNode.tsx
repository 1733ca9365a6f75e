import './texts'
import { Button } from '@mantine/core'
import { IconHourglass } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http } from '../../api/client'
import type { FieldSpec } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import { CopyText } from '../../kit/page/CopyText'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import classes from './Cluster.module.css'
import { statusQuery } from './resources'
import { joinedSteps } from './standing'

const fields: FieldSpec<'node_fqdn'>[] = [{ name: 'node_fqdn', type: 'mono', required: true }]

interface Made {
  token: string
  node: string
}

/** Adds a node: its token, shown once, and the progress of the join. */
export default function AddNode() {
  const { t } = useTranslation('cluster')
  const queries = useQueryClient()
  const made = useRef<Made | null>(null)
  const [shown, setShown] = useState<Made | null>(null)
  const tokens = {
    kind: 'cluster',
    create: async (form: object) => {
      const created = await answer(http.POST('/cluster/join-tokens', { body: form as { node_fqdn: string } }))
      made.current = { token: created.value.token, node: (form as { node_fqdn: string }).node_fqdn.toLowerCase() }
      return created as never
    },
  }
  return (
    <DetailDrawer title={shown ? t('add.made', { name: shown.node }) : t('add.title')} back={paths.cluster}>
      {shown ? (
        <Progress {...shown} />
      ) : (
        <>
          <p className={classes.lead}>{t('add.lead')}</p>
          <CreateForm
            own
            resource={tokens}
            text="cluster:add"
            fields={fields}
            verb={t('add.verb')}
            preview={false}
            onDone={() => {
              setShown(made.current)
              void queries.invalidateQueries(statusQuery)
            }}
          />
        </>
      )}
    </DetailDrawer>
  )
}

const steps = ['token', 'certificate', 'registered', 'follows']

function Progress({ token, node }: Made) {
  const { t } = useTranslation('cluster')
  const navigate = useNavigate()
  const { data } = useQuery(statusQuery)
  const done = joinedSteps(data?.peers.find(({ fqdn }) => fqdn === node))
  const primary = data?.local_node.fqdn ?? location.hostname
  return (
    <div className={classes.form}>
      {done < 2 && (
        <>
          <Notice tone="warn">{t('add.once')}</Notice>
          <p>{t('add.command')}</p>
          <CopyText
            text={`gateway-ctl cluster-join --primary ${primary} --token ${token}`}
            label={t('add.commandLabel')}
          />
          <p>{t('add.orConsole', { primary })}</p>
          <CopyText text={token} label={t('add.token')} />
        </>
      )}
      <ol className={classes.steps} aria-label={t('add.progress')}>
        {steps.map((step, index) => (
          <li key={step} aria-current={index === done ? 'step' : undefined}>
            <Badge
              tone={index < done ? 'live' : index === done ? 'warn' : 'off'}
              icon={index === done ? IconHourglass : undefined}
            >
              {t(`add.step.${step}`)}
            </Badge>
            {index === done && <span className="soft">{t('add.waiting')}</span>}
          </li>
        ))}
      </ol>
      {done === steps.length && <Notice tone="live">{t('add.done', { name: node })}</Notice>}
      <Button variant={done === steps.length ? 'filled' : 'default'} onClick={() => navigate({ to: paths.cluster })}>
        {t(done === steps.length ? 'add.close' : 'add.later')}
      </Button>
    </div>
  )
}
