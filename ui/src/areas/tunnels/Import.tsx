import { Button, Checkbox } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http, intentHeaders } from '../../api/client'
import type { Data } from '../../api/resource'
import { tunnels } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { usualIntent } from '../../kit/change/intent'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toastApplied } from '../../kit/state/toast'
import { paths } from '../../paths'
import { importableQuery } from './resources'
import classes from './Tunnels.module.css'

type Importable = Data<'/tunnel/importable'>[number]
type Imported = Data<'/tunnel/import', 'post'>

const possible = ({ already_in, error }: Importable) => !already_in && !error

/** Imports WireGuard's own configurations: choose, see what is imported and what is not, confirm. */
export default function Import() {
  const { t } = useTranslation('tunnels')
  const query = useQuery(importableQuery)
  const [done, setDone] = useState<Imported | null>(null)
  return (
    <DetailDrawer title={t('import.title')} back={paths.tunnels}>
      {done ? (
        <Outcome files={done} />
      ) : (
        <Loaded query={query} height={240}>
          {(files) =>
            files.length > 0 ? (
              <Choice files={files} onDone={setDone} />
            ) : (
              <Notice tone="off" title={t('import.noneTitle')}>
                {t('import.none')}
              </Notice>
            )
          }
        </Loaded>
      )}
    </DetailDrawer>
  )
}

function Choice({ files, onDone }: { files: Importable[]; onDone: (files: Imported) => void }) {
  const { t } = useTranslation('tunnels')
  const queries = useQueryClient()
  const canEdit = useCanEdit()
  const [left, setLeft] = useState<readonly string[]>([])
  const names = files.filter((file) => possible(file) && !left.includes(file.name)).map(({ name }) => name)
  const intent = usualIntent(tunnels.kind)
  const take = useMutation({
    mutationFn: () => answer(http.POST('/tunnel/import', { body: { names }, headers: intentHeaders(intent) })),
    onSuccess: ({ value, applied }) => {
      const count = value.filter(({ imported }) => imported).length
      if (count > 0) toastApplied(t('import.done', { count }), applied)
      onDone(value)
    },
    onSettled: () => queries.invalidateQueries(),
  })
  return (
    <div className={classes.step}>
      <p className="soft">{t('import.lead')}</p>
      {files.map((file) => (
        <File
          key={file.name}
          file={file}
          head={
            <>
              <Checkbox
                label={<span className="mono">{file.name}</span>}
                description={file.mode && t(`import.${file.mode}`, { count: file.peers })}
                checked={names.includes(file.name)}
                disabled={!possible(file) || !canEdit}
                onChange={({ currentTarget: { checked } }) =>
                  setLeft(checked ? left.filter((name) => name !== file.name) : [...left, file.name])
                }
              />
              {file.already_in && <Badge tone="off">{t('import.alreadyIn')}</Badge>}
              {file.error && <Badge tone="bad">{t('import.impossible')}</Badge>}
            </>
          }
        />
      ))}
      {take.isError && <FaultNotice fault={take.error} />}
      {canEdit && (
        <div className={classes.buttons}>
          <Button disabled={names.length === 0} loading={take.isPending} onClick={() => take.mutate()}>
            {t('import.now', { count: names.length })}
          </Button>
        </div>
      )}
    </div>
  )
}

/** The result for each file. */
function Outcome({ files }: { files: Imported }) {
  const { t } = useTranslation('tunnels')
  return (
    <div className={classes.step}>
      {files.map((file) => (
        <File
          key={file.name}
          file={file}
          head={
            <>
              <b className="mono">{file.name}</b>
              <Badge tone={file.imported ? 'live' : 'bad'}>
                {file.imported ? t('import.taken', { count: file.peers }) : t('import.impossible')}
              </Badge>
            </>
          }
        />
      ))}
      <div className={classes.buttons}>
        <Button component={Link} to={paths.tunnels}>
          {t('import.finish')}
        </Button>
      </div>
    </div>
  )
}

function File({ file, head }: { file: { name: string; notes: string[]; error: string }; head: ReactNode }) {
  return (
    <section className={classes.file} aria-label={file.name}>
      <div className={classes.fileHead}>{head}</div>
      {file.error && <div>{file.error}</div>}
      {file.notes.length > 0 && (
        <ul>
          {file.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </section>
  )
}
