import '../areas/backups/texts'
import { Button, FileInput, Group, Input, SegmentedControl, TextInput } from '@mantine/core'
import { useCallback, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { type Fault, toFault } from '../api/fault'
import type { Backup, Restore, RestorePlan } from '../api/types'
import { type Links, PassphraseForm, PlanView } from '../areas/backups/PlanView'
import { usual } from '../areas/backups/usual'
import { JobResult, RunningJob } from '../kit/job/LastJob'
import { Notice } from '../kit/state/Notice'
import classes from './Door.module.css'
import { RestoreSource } from './RestoreSource'
import { dropToken, headerOf, keepToken, keptToken } from './setup-token'

interface RestoreSetupProps {
  tokenRequired: boolean
  onBack: () => void
}

/** Restores a backup on a new machine instead of setting it up: choose the archive, see its content, restore. */
export default function RestoreSetup({ tokenRequired, onBack }: RestoreSetupProps) {
  const { t } = useTranslation('door')
  const [token, setToken] = useState(keptToken() ?? '')
  const [from, setFrom] = useState('upload')
  const [backup, setBackup] = useState<Backup | null>(null)
  const [following, setFollowing] = useState(keptToken() !== null)
  const [fault, setFault] = useState<Fault | null>(null)
  const fail = useCallback((cause: unknown) => setFault(toFault(cause)), [])
  const follow = () => {
    keepToken(token)
    setFollowing(true)
  }
  const again = () => {
    dropToken()
    setFault(null)
    setBackup(null)
    setFollowing(false)
  }
  return (
    <div className={`${classes.card} ${classes.wide}`}>
      <h1>{t('restore.title')}</h1>
      <p className={classes.lead}>{t('restore.lead')}</p>
      <div className={classes.fields}>
        {following ? (
          <Follow token={token} onBack={again} />
        ) : backup ? (
          <Look token={token} backup={backup} onBegun={follow} onBack={again} />
        ) : (
          <>
            {tokenRequired && (
              <TextInput
                label={t('setup.setup_token.label')}
                description={t('setup.setup_token.help')}
                value={token}
                onChange={({ currentTarget }) => setToken(currentTarget.value)}
                error={fault?.fields.setup_token}
                autoComplete="off"
                classNames={{ input: 'mono' }}
                withAsterisk
              />
            )}
            <Input.Wrapper label={t('restore.from')}>
              <div>
                <SegmentedControl
                  aria-label={t('restore.from')}
                  fullWidth
                  value={from}
                  onChange={(next) => {
                    setFault(null)
                    setFrom(next)
                  }}
                  data={['upload', 'offsite'].map((value) => ({ value, label: t(`restore.${value}`) }))}
                />
              </div>
            </Input.Wrapper>
            {fault && !fault.fields.setup_token && <Notice tone="bad">{fault.message}</Notice>}
            {from === 'upload' ? (
              <Upload token={token} onBrought={setBackup} onFault={fail} />
            ) : (
              <RestoreSource token={token} onBrought={setBackup} onFault={fail} />
            )}
            <p className={classes.foot}>
              <button type="button" className={classes.link} onClick={onBack}>
                {t('restore.instead')}
              </button>
            </p>
          </>
        )}
      </div>
    </div>
  )
}

interface BringProps {
  token: string
  onBrought: (backup: Backup) => void
  onFault: (cause: unknown) => void
}

function Upload({ token, onBrought, onFault }: BringProps) {
  const { t } = useTranslation('door')
  const [file, setFile] = useState<File | null>(null)
  const [busy, setBusy] = useState(false)
  const upload = async () => {
    setBusy(true)
    try {
      const brought = await unwrap(
        http.POST('/setup/restore/upload', {
          params: { header: headerOf(token) },
          body: file as never,
          bodySerializer: (body: unknown) => body as File,
          headers: { 'Content-Type': 'application/octet-stream' },
        }),
      )
      onBrought(brought)
    } catch (cause) {
      onFault(cause)
      setBusy(false)
    }
  }
  return (
    <>
      <FileInput
        label={t('restore.file')}
        description={t('restore.fileHelp')}
        placeholder={t('restore.choose')}
        value={file}
        onChange={setFile}
        clearable
        clearButtonProps={{ 'aria-label': t('restore.clear') }}
      />
      <Button disabled={!file} loading={busy} onClick={() => void upload()}>
        {t('restore.uploadVerb')}
      </Button>
    </>
  )
}

interface LookProps {
  token: string
  backup: Backup
  onBegun: () => void
  onBack: () => void
}

/** Shows what is in the archive, and asks for what the restore needs. */
function Look({ token, backup, onBegun, onBack }: LookProps) {
  const { t } = useTranslation('door')
  const [passphrase, setPassphrase] = useState('')
  const [plan, setPlan] = useState<RestorePlan | null>(null)
  const [links, setLinks] = useState<Links>({})
  const [fault, setFault] = useState<Fault | null>(null)
  const [busy, setBusy] = useState(false)
  const chosen = { backup_id: backup.id, ...(passphrase && { passphrase }) }
  useEffect(() => {
    let current = true
    setFault(null)
    const body = { backup_id: backup.id, ...(passphrase && { passphrase }) }
    unwrap(http.POST('/setup/restore/plan', { params: { header: headerOf(token) }, body })).then(
      (found) => current && setPlan(found),
      (cause) => current && setFault(toFault(cause)),
    )
    return () => {
      current = false
    }
  }, [token, backup.id, passphrase])
  const begin = async () => {
    setBusy(true)
    setFault(null)
    try {
      const body = { ...chosen, interfaces: links }
      await unwrap(http.POST('/setup/restore/begin', { params: { header: headerOf(token) }, body }))
      onBegun()
    } catch (cause) {
      setFault(toFault(cause))
      setBusy(false)
    }
  }
  const another = (
    <Button variant="default" onClick={onBack}>
      {t('restore.another')}
    </Button>
  )
  if (fault?.fields.passphrase) {
    return <PassphraseForm wrong={Boolean(passphrase)} onOpen={setPassphrase} aside={another} />
  }
  return (
    <>
      {plan ? (
        <PlanView plan={plan} links={links} onLinks={setLinks} complaints={fault?.fields ?? {}} />
      ) : (
        !fault && <p>{t('restore.looking')}</p>
      )}
      {plan && <p>{t('restore.replaces')}</p>}
      {fault && <Notice tone="bad">{fault.message}</Notice>}
      <Group justify="flex-end" gap="xs">
        {another}
        <Button disabled={!plan || plan.blockers.length > 0} loading={busy} onClick={() => void begin()}>
          {t('restore.begin')}
        </Button>
      </Group>
    </>
  )
}

const every = 1000
/** The status of setup requests once the setup is complete, as it is after a restore. */
const closed = 409

/** Polls until the restore succeeds, or fails and leaves the machine as it was. */
function Follow({ token, onBack }: { token: string; onBack: () => void }) {
  const { t } = useTranslation('door')
  const [job, setJob] = useState<Restore | null>(null)
  const [away, setAway] = useState<number>()
  const [done, setDone] = useState(false)
  const ended = done || (job !== null && job.state !== 'running')
  useEffect(() => {
    if (ended) return
    const ask = async () => {
      try {
        setJob(await unwrap(http.GET('/setup/restore', { params: { header: headerOf(token) } })))
        setAway(undefined)
      } catch (cause) {
        if (toFault(cause).status === closed) setDone(true)
        else setAway((since) => since ?? Date.now())
      }
    }
    void ask()
    const timer = setInterval(() => void ask(), every)
    return () => clearInterval(timer)
  }, [ended, token])
  if (done || job?.state === 'done') {
    return (
      <>
        <Notice tone="live" title={t('restore.doneTitle')}>
          {t('restore.doneText')}
        </Notice>
        <Button component="a" href="/login" onClick={dropToken}>
          {t('reset.toLogin')}
        </Button>
      </>
    )
  }
  if (!ended) {
    return (
      <>
        {job && <RunningJob text="backups" name="restore" usual={usual} job={job} awaySince={away} />}
        {away !== undefined && <p className={classes.foot}>{t('restore.elsewhere')}</p>}
      </>
    )
  }
  return (
    <>
      {job && <JobResult text="backups" job={job} />}
      <Button variant="default" onClick={onBack}>
        {t('restore.another')}
      </Button>
    </>
  )
}
