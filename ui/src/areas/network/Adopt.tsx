import './texts'
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { changeSet, type Operation } from '../../api/resource'
import type { Adoptable } from '../../api/types'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import ChangePreview from '../../kit/ChangePreview'
import { DetailDrawer } from '../../kit/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { ownConnection } from '../../kit/own-connection'
import { objectionTo } from '../../kit/remove'
import { toastApplied } from '../../kit/toast'
import classes from './Adopt.module.css'
import { AdoptChoices } from './AdoptChoices'
import { adoptionOf, proposal } from './adoption'
import { adoptableQuery } from './useLinks'

/** Declares links that are there already: choose, see what that changes, do it at once. */
export default function Adopt() {
  const { t } = useTranslation('network')
  const query = useQuery({ ...adoptableQuery, refetchOnWindowFocus: false })
  return (
    <DetailDrawer title={t('adopt.title')} back={paths.interfaces} wide>
      <Loaded query={query} height={320}>
        {(links) => (links.length > 0 ? <AdoptForm links={links} /> : <Notice tone="live">{t('adopt.none')}</Notice>)}
      </Loaded>
    </DetailDrawer>
  )
}

interface Plan {
  operations: Operation[]
  objection: ReactNode
}

function AdoptForm({ links }: { links: Adoptable[] }) {
  const { t } = useTranslation('network')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const canEdit = useCanEdit()
  const [choices, setChoices] = useState(() => proposal(links))
  const [starter, setStarter] = useState({ reach: true, masquerade: true })
  const names = { reach: t('adopt.reach.name'), masquerade: t('adopt.masquerade.name') }
  const count = choices.filter(({ take }) => take).length

  const plan = useMutation({
    mutationFn: async (): Promise<Plan> => {
      const operations = adoptionOf(choices, starter, names)
      return { operations, objection: await objectionTo(operations, ownConnection) }
    },
  })
  const adopt = useMutation({
    mutationFn: (operations: Operation[]) => changeSet(operations, t('adopt.title')),
    onSuccess: async ({ applied }) => {
      toastApplied(t('adopt.done', { count }), applied)
      // The preview goes first: it would be refused now, for what it announced is there.
      await navigate({ to: paths.interfaces })
      await queries.invalidateQueries()
    },
  })

  if (!plan.data) {
    return (
      <div className={classes.step}>
        <p className={classes.lead}>{t('adopt.lead')}</p>
        <AdoptChoices choices={choices} onChoices={setChoices} starter={starter} onStarter={setStarter} />
        <div className={classes.actions}>
          <Button disabled={count === 0 || !canEdit} loading={plan.isPending} onClick={() => plan.mutate()}>
            {t('common:form.preview')}
          </Button>
        </div>
      </div>
    )
  }
  const { operations, objection } = plan.data
  return (
    <div className={classes.step}>
      {adopt.isError && <FaultNotice fault={adopt.error} />}
      {objection}
      <div className={classes.actions}>
        <Button
          color={objection ? 'red.8' : undefined}
          loading={adopt.isPending}
          onClick={() => adopt.mutate(operations)}
        >
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
      <ChangePreview operations={operations} />
    </div>
  )
}
