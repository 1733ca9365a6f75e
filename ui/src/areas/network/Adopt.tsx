import './texts'
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import type { Adoptable, NetworkProposal } from '../../api/types'
import { Previewed } from '../../kit/change/ChangePreview'
import { ownConnection } from '../../kit/change/own-connection'
import { objectionTo } from '../../kit/change/remove'
import { sortComplaints } from '../../kit/form/form-errors'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toastApplied } from '../../kit/state/toast'
import { paths } from '../../paths'
import classes from './Adopt.module.css'
import { AdoptChoices } from './AdoptChoices'
import { type Beyond as Chosen, proposal, setUp, setupOf } from './adoption'
import { Beyond, beyondFields } from './Beyond'
import { type Done, Proof } from './Proof'
import { adoptableQuery } from './useLinks'

const proposalQuery = {
  queryKey: ['network', 'setup'],
  queryFn: async () => ({
    links: await unwrap(http.GET('/network/adoptable')),
    proposed: await unwrap(http.GET('/network/setup')),
  }),
  refetchOnWindowFocus: false,
  // The form must not change while the user edits it.
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
}

/** Makes networks of existing interfaces: choose, preview, apply at once, and check that it works. */
export default function Adopt() {
  const { t } = useTranslation('network')
  const [done, setDone] = useState<Done | null>(null)
  const query = useQuery({ ...proposalQuery, enabled: !done })
  return (
    <DetailDrawer title={t('adopt.title')} back={paths.interfaces} wide>
      {done ? (
        <Proof {...done} />
      ) : (
        <Loaded query={query} height={320}>
          {({ links, proposed }) =>
            proposed.networks.length > 0 ? (
              <AdoptForm links={links} proposed={proposed} onDone={setDone} />
            ) : (
              <Notice tone="live">{t('adopt.none')}</Notice>
            )
          }
        </Loaded>
      )}
    </DetailDrawer>
  )
}

interface AdoptFormProps {
  links: Adoptable[]
  proposed: NetworkProposal
  onDone: (done: Done) => void
}

function AdoptForm({ links, proposed, onDone }: AdoptFormProps) {
  const { t } = useTranslation('network')
  const queries = useQueryClient()
  const canEdit = useCanEdit()
  const [choices, setChoices] = useState(() => proposal(links, proposed))
  const { upstream_forwards, time_servers } = proposed
  const [sources, setSources] = useState({ upstream_forwards, time_servers, masquerade: true })
  const [beyond, setBeyond] = useState<Chosen>({})
  const count = choices.filter(({ take }) => take).length
  const wish = setupOf(choices, sources, proposed)

  const plan = useMutation({
    mutationFn: async () => {
      const { value } = await setUp(wish.networks, { ...wish.sources, ...beyond }, { preview: true })
      const objection: ReactNode = await objectionTo(value.operations, ownConnection)
      return { value, objection }
    },
  })
  const adopt = useMutation({
    mutationFn: () =>
      setUp(wish.networks, { ...wish.sources, ...beyond }, { reason: t('adopt.title'), confirm_within: 0 }),
    onSuccess: async ({ value, applied }) => {
      // The next page shows what is live.
      if (applied.some(({ state }) => state !== 'live')) toastApplied(t('adopt.done', { count }), applied)
      onDone({ networks: wish.networks, site: beyond.site, changes: value.changes })
      await queries.invalidateQueries({ queryKey: adoptableQuery.queryKey })
      await queries.invalidateQueries()
    },
  })

  const complaints = useMemo(() => plan.error && sortComplaints(toFault(plan.error), beyondFields), [plan.error])

  if (!plan.data) {
    return (
      <div className={classes.step}>
        <p className={classes.lead}>{t('adopt.lead')}</p>
        <AdoptChoices choices={choices} onChoices={setChoices} sources={sources} onSources={setSources} />
        <Beyond
          chosen={beyond}
          onChosen={(chosen) => {
            plan.reset()
            setBeyond(chosen)
          }}
          complaints={complaints?.atField}
        />
        {complaints && (complaints.elsewhere.length > 0 || Object.keys(complaints.atField).length === 0) && (
          <FaultNotice fault={plan.error} />
        )}
        <div className={classes.actions}>
          <Button disabled={count === 0 || !canEdit} loading={plan.isPending} onClick={() => plan.mutate()}>
            {t('common:form.preview')}
          </Button>
        </div>
      </div>
    )
  }
  const { value, objection } = plan.data
  return (
    <div className={classes.step}>
      <Previewed {...value} />
      {adopt.isError && <FaultNotice fault={adopt.error} />}
      {objection}
      <div className={classes.actions}>
        <Button color={objection ? 'red.8' : undefined} loading={adopt.isPending} onClick={() => adopt.mutate()}>
          {t(objection ? 'adopt.anyway' : 'adopt.now', { count })}
        </Button>
        <Button
          variant="default"
          onClick={() => {
            plan.reset()
            adopt.reset()
          }}
        >
          {t('adopt.back')}
        </Button>
      </div>
    </div>
  )
}
