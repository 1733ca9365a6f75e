import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Outlet, useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http, unwrap } from '../../api/client'
import type { Resource } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import type { IdsBouncer } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import type { Column } from '../../kit/list/DataTable'
import { RowList } from '../../kit/list/ResourceList'
import { RowButton } from '../../kit/list/RowButton'
import { CopyText } from '../../kit/page/CopyText'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Ids.module.css'
import { Machines } from './Machines'
import { Untold } from './marks'
import { bouncersQuery } from './resources'

type Row = IdsBouncer & { id: string }

/** The bouncers, which ask CrowdSec whom to block, and the machines, which report attacks. */
export default function Bouncers() {
  const query = useQuery(bouncersQuery)
  const columns = useColumns()
  return (
    <>
      <Untold error={query.data?.error} text="bouncer" />
      {!query.data?.error && (
        <RowList
          query={query}
          rowsOf={({ bouncers }) => bouncers.map((row): Row => ({ ...row, id: row.name }))}
          text="ids:bouncer"
          columns={columns}
          searchText={({ name, type, address }) => [name, type, address].join(' ')}
          createLink={paths.idsBouncerNew}
        />
      )}
      <Machines />
      <Outlet />
    </>
  )
}

function useColumns(): Column<Row>[] {
  const { t } = useTranslation('ids')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const remove = async (name: string) => {
    await unwrap(http.DELETE('/ids/bouncers/{name}', { params: { path: { name } } }))
    await queries.invalidateQueries(bouncersQuery)
  }
  return [
    {
      key: 'name',
      header: t('bouncer.name.label'),
      width: 'minmax(0, 1.4fr)',
      cell: ({ name, own }) => (
        <span className={classes.daemon}>
          <span className="mono">{name}</span>
          {own && <Badge tone="off">{t('bouncer.own')}</Badge>}
        </span>
      ),
      sortBy: ({ name }) => name,
    },
    {
      key: 'type',
      header: t('bouncer.type'),
      cell: ({ type, version }) => [type, version].filter(Boolean).join(' ') || <span className="soft">–</span>,
      sortBy: ({ type }) => type,
    },
    {
      key: 'address',
      header: t('bouncer.address'),
      cell: ({ address }) => <span className="mono">{address || '–'}</span>,
      sortBy: ({ address }) => address,
    },
    {
      key: 'pulled',
      header: t('bouncer.pulled'),
      width: '110px',
      align: 'right',
      cell: ({ last_pull: at }) => <Time at={at} />,
      sortBy: ({ last_pull: at }) => at,
    },
    {
      key: 'created',
      header: t('bouncer.created'),
      width: '110px',
      align: 'right',
      cell: ({ created_at: at }) => <Time at={at} />,
      sortBy: ({ created_at: at }) => at,
    },
    {
      key: 'delete',
      header: '',
      width: '80px',
      align: 'right',
      cell: ({ name, own }) =>
        canEdit &&
        !own && (
          <RowButton
            verb={t('common:delete.verb')}
            name={name}
            question={{ title: t('common:delete.title', { name }), text: t('bouncer.deleteText') }}
            act={() => remove(name)}
            done={t('common:delete.done', { name })}
          />
        ),
    },
  ]
}

const fields: Fields<'ids.bouncer'> = [{ name: 'name', type: 'mono' }]

/** The form for a new bouncer. Its key is shown only once. */
export function Create() {
  const { t } = useTranslation('ids')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const made = useRef('')
  const [key, setKey] = useState('')
  const bouncers: Pick<Resource<{ name: string }>, 'kind' | 'create'> = {
    kind: 'ids.bouncer',
    create: async (body) => {
      const created = await answer(http.POST('/ids/bouncers', { body: body as { name: string } }))
      made.current = created.value.key
      await queries.invalidateQueries(bouncersQuery)
      return created
    },
  }
  return (
    <DetailDrawer title={t(key ? 'bouncer.made' : 'bouncer.new')} back={paths.idsBouncers}>
      {key ? (
        <div className={classes.made}>
          <Notice tone="warn">{t('bouncer.once')}</Notice>
          <CopyText text={key} label={t('bouncer.key')} />
          <p>{t('bouncer.use')}</p>
          <Button onClick={() => navigate({ to: paths.idsBouncers })}>{t('bouncer.done')}</Button>
        </div>
      ) : (
        <CreateForm
          resource={bouncers}
          text="ids:bouncer"
          fields={fields}
          preview={false}
          onDone={() => setKey(made.current)}
        />
      )}
    </DetailDrawer>
  )
}
