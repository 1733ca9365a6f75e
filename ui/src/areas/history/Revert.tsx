import './texts'
import { Button, MultiSelect, TextInput } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { toFault } from '../../api/fault'
import { kinds } from '../../kit/change/kinds'
import { kindName } from '../../kit/change/words'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { localInput } from '../../kit/text/format'
import { paths } from '../../paths'
import classes from './History.module.css'
import { type Ask, RevertView } from './RevertView'
import { revertSet, revertTo } from './resources'

/** Reverts one change set. */
export function RevertSet() {
  const { t } = useTranslation('history')
  const navigate = useNavigate()
  const { id } = useParams({ strict: false }) as { id: string }
  return (
    <DetailDrawer title={t('revert.title')} back={paths.changeSet(id)} wide>
      <div className={classes.step}>
        <p className="soft">{t('revert.lead')}</p>
        <RevertView
          of={[id]}
          ask={(options, intent) => revertSet(id, options, intent)}
          onDone={() => navigate({ to: paths.history, search: true } as never)}
        />
      </div>
    </DetailDrawer>
  )
}

const hour = 3_600_000
const ago = { hour, day: 24 * hour, week: 7 * 24 * hour }

/** Reverts everything, or some kinds, to a point in time. */
export function GoBack() {
  const { t } = useTranslation('history')
  const navigate = useNavigate()
  const [at, setAt] = useState(() => localInput(Date.now() - hour))
  const [some, setSome] = useState<string[]>([])
  const [asked, setAsked] = useState<{ at: string; kinds: string[] } | null>(null)
  const [complaint, setComplaint] = useState('')
  const ask: Ask = (options, intent) =>
    revertTo(asked ?? { at, kinds: some }, options, intent).catch((cause) => {
      setComplaint(toFault(cause).fields.at ?? '')
      throw cause
    })
  return (
    <DetailDrawer title={t('back.title')} back={paths.history} wide>
      <div className={classes.step}>
        <p className="soft">{t('back.lead')}</p>
        <TextInput
          type="datetime-local"
          step={1}
          label={t('back.at')}
          value={at}
          error={complaint}
          max={localInput(Date.now())}
          onChange={(event) => setAt(event.currentTarget.value)}
          maw={260}
        />
        <div className={classes.actions}>
          {Object.entries(ago).map(([name, time]) => (
            <Button key={name} size="compact-sm" variant="default" onClick={() => setAt(localInput(Date.now() - time))}>
              {t(`back.quick.${name}`)}
            </Button>
          ))}
        </div>
        <MultiSelect
          label={t('back.kinds')}
          description={t('back.kindsHelp')}
          data={kinds.map((kind) => ({ value: kind, label: kindName(kind) }))}
          value={some}
          onChange={setSome}
          searchable
        />
        <div>
          <Button
            variant="default"
            disabled={!at}
            onClick={() => {
              setComplaint('')
              setAsked({ at: new Date(at).toISOString(), kinds: some })
            }}
          >
            {t('back.preview')}
          </Button>
        </div>
        {asked && !complaint && (
          <RevertView
            key={JSON.stringify(asked)}
            of={[asked]}
            ask={ask}
            onDone={() => navigate({ to: paths.history, search: true } as never)}
          />
        )}
      </div>
    </DetailDrawer>
  )
}
