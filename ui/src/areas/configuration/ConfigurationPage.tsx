import './texts'
import '../history/texts'
import { Button, MultiSelect, Switch } from '@mantine/core'
import { IconDownload, IconEdit } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import { kinds } from '../../kit/change/kinds'
import { kindName } from '../../kit/change/words'
import { Page, Panel } from '../../kit/page/Page'
import { toastFault } from '../../kit/state/toast'
import { Apply } from './Apply'
import classes from './Configuration.module.css'
import { exported, exportLink } from './resources'

export default function ConfigurationPage() {
  const { t } = useTranslation('configuration')
  // Opening another document in the editor discards everything there.
  const [opened, setOpened] = useState({ text: '', times: 0 })
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Export onText={(text) => setOpened(({ times }) => ({ text, times: times + 1 }))} />
      <Apply key={opened.times} opened={opened.text} />
    </Page>
  )
}

/** The configuration as a document, to download or to edit. */
function Export({ onText }: { onText: (text: string) => void }) {
  const { t } = useTranslation('configuration')
  const admin = useCanEdit()
  const [some, setSome] = useState<string[]>([])
  const [secrets, setSecrets] = useState(admin)
  const edit = useMutation({
    mutationFn: () => exported(some, secrets),
    onSuccess: (text) => onText(String(text)),
    onError: toastFault,
  })
  return (
    <Panel title={t('export.title')}>
      <div className={classes.step}>
        <MultiSelect
          label={t('export.kinds.label')}
          description={t('export.kinds.help')}
          data={kinds.map((kind) => ({ value: kind, label: kindName(kind) }))}
          value={some}
          onChange={setSome}
          searchable
          maw={560}
        />
        {admin && (
          <Switch
            label={t('export.secrets.label')}
            description={t('export.secrets.help')}
            checked={secrets}
            onChange={(event) => setSecrets(event.currentTarget.checked)}
          />
        )}
        <div className={classes.actions}>
          <Button
            component="a"
            href={exportLink(some, secrets)}
            download="gateway.yaml"
            leftSection={<IconDownload size={16} aria-hidden />}
          >
            {t('export.download')}
          </Button>
          <Button
            variant="default"
            loading={edit.isPending}
            onClick={() => edit.mutate()}
            leftSection={<IconEdit size={16} aria-hidden />}
          >
            {t('export.edit')}
          </Button>
        </div>
      </div>
    </Panel>
  )
}
