import { Button } from '@mantine/core'
import { IconClipboardText } from '@tabler/icons-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { PemText } from '../../kit/form/PemText'
import { Notice } from '../../kit/state/Notice'
import { type Conf, type ConfProblem, readConf } from './conf'
import classes from './Tunnels.module.css'

/** Parses a provider's configuration in the browser and fills in the form. */
export function Paste({ onRead }: { onRead: (conf: Conf | null) => void }) {
  const { t } = useTranslation('tunnels')
  const [open, setOpen] = useState(false)
  const [text, setText] = useState('')
  const [read, setRead] = useState<Conf | ConfProblem | null>(null)
  const take = (next: string) => {
    const result = next.trim() ? readConf(next) : null
    setText(next)
    setRead(result)
    onRead(typeof result === 'string' ? null : result)
  }
  if (!open) {
    return (
      <Button
        mb="md"
        size="compact-sm"
        variant="default"
        leftSection={<IconClipboardText size={14} aria-hidden />}
        onClick={() => setOpen(true)}
      >
        {t('paste.verb')}
      </Button>
    )
  }
  return (
    <div className={classes.paste}>
      <PemText
        label={t('paste.label')}
        description={t('paste.help')}
        placeholder={'[Interface]\nPrivateKey = …'}
        accept=".conf,.txt"
        value={text}
        onChange={take}
        error={typeof read === 'string' && t(`paste.problems.${read}`)}
        autoFocus
      />
      {read && typeof read !== 'string' && (
        <Notice tone="live" title={t('paste.read')}>
          {'private_key' in read.secrets && <div>{t('paste.key')}</div>}
          {read.left.length > 0 && <div>{t('paste.left', { names: read.left.join(', ') })}</div>}
        </Notice>
      )}
    </div>
  )
}
