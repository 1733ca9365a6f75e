import { Button, Checkbox } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import { useBlocker } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useMe } from '../../api/session'
import { confirm } from '../../kit/change/confirm'
import { CopyButton } from '../../kit/page/CopyText'
import { Notice } from '../../kit/state/Notice'
import classes from './Profile.module.css'

/** Recovery codes, shown only once. Leaving before they are stored asks first. */
export function RecoveryCodes({ codes, onKept }: { codes: string[]; onKept: () => void }) {
  const { t } = useTranslation('profile')
  const me = useMe()
  const [kept, setKept] = useState(false)

  useBlocker({
    enableBeforeUnload: !kept,
    shouldBlockFn: async () =>
      !kept &&
      !(await confirm({
        title: t('recovery.leaveTitle'),
        text: t('recovery.leaveText'),
        verb: t('common:form.leave'),
        danger: true,
      })),
  })

  const download = () => {
    const text = `${t('recovery.file', { host: location.host, email: me.email })}\n\n${codes.join('\n')}\n`
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
    link.download = `recovery-codes-${location.hostname}.txt`
    link.click()
    URL.revokeObjectURL(link.href)
  }

  return (
    <div className={classes.form}>
      <Notice tone="live" title={t('recovery.title')}>
        {t('recovery.text')}
      </Notice>
      <ul className={`mono ${classes.codes}`} aria-label={t('recovery.label')}>
        {codes.map((code) => (
          <li key={code}>{code}</li>
        ))}
      </ul>
      <div className={classes.buttons}>
        <CopyButton text={codes.join('\n')} />
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
          onClick={download}
        >
          {t('recovery.download')}
        </Button>
      </div>
      <Checkbox label={t('recovery.kept')} checked={kept} onChange={(event) => setKept(event.currentTarget.checked)} />
      <Button className={classes.submit} disabled={!kept} onClick={onKept}>
        {t('recovery.done')}
      </Button>
    </div>
  )
}
