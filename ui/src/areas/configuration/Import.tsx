import { Button, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { PemText } from '../../kit/form/PemText'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import classes from './Configuration.module.css'
import { converted, type Source } from './resources'

export type Imported = Awaited<ReturnType<typeof converted>>

interface ImportProps {
  from: Source
  onImported: (imported: Imported) => void
}

/** Converts another program's configuration to a document. */
export function Import({ from, onImported }: ImportProps) {
  const { t } = useTranslation('configuration')
  const [text, setText] = useState('')
  const [interfaces, setInterfaces] = useState('')
  const convert = useMutation({ mutationFn: () => converted(from, text, interfaces), onSuccess: onImported })
  return (
    <>
      <PemText
        label={t(`import.${from}.label`)}
        description={t(`import.${from}.help`)}
        accept={from === 'haproxy' ? '.cfg,.conf,.txt' : '.xml'}
        rows={16}
        value={text}
        onChange={setText}
      />
      {from === 'opnsense' && (
        <TextInput
          label={t('import.interfaces.label')}
          description={t('import.interfaces.help')}
          value={interfaces}
          onChange={(event) => setInterfaces(event.currentTarget.value)}
          maw={560}
        />
      )}
      {convert.isError && <FaultNotice fault={convert.error} />}
      <div>
        <Button disabled={text.trim() === ''} loading={convert.isPending} onClick={() => convert.mutate()}>
          {t('import.verb')}
        </Button>
      </div>
    </>
  )
}

/** The result of a conversion, and what was left out. */
export function LeftOver({ imported: { left, secret } }: { imported: Imported }) {
  const { t } = useTranslation('configuration')
  return (
    <>
      <Notice tone="live">{t('import.done')}</Notice>
      {secret && <Notice tone="warn">{t('import.secret')}</Notice>}
      {left.length > 0 && (
        <Notice tone="warn" title={t('import.left', { count: left.length })}>
          <ul className={classes.lines}>
            {left.map(({ line, what, why }) => (
              <li key={`${line} ${what} ${why}`}>
                <span className="mono soft">{t('import.line', { line })}</span> <code>{what}</code> {why}
              </li>
            ))}
          </ul>
        </Notice>
      )}
    </>
  )
}
