import { Button, Group } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { paths as ApiPaths } from '../../api/schema'
import { componentStream } from '../../api/streams'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import { confirm } from '../../kit/confirm'
import { DetailDrawer } from '../../kit/DetailDrawer'
import { Code, Diff } from '../../kit/Diff'
import { Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { StateBadge, stateTone } from '../../kit/StateBadge'
import { toast } from '../../kit/toast'
import { useStream } from '../../kit/useStream'
import classes from './Components.module.css'

type Restartable = ApiPaths['/system/service-restart']['post']['requestBody']['content']['application/json']['kind']
const restartable: string[] = ['reverse-proxy', 'forward-proxy', 'dns', 'ntp'] satisfies Restartable[]

/** One component: what it would write now, against what is live. */
export default function ComponentDetail() {
  const { t } = useTranslation('components')
  const canEdit = useCanEdit()
  const { name } = useParams({ strict: false }) as { name: string }
  const component = useStream(componentStream).items.find((one) => one.name === name)
  const preview = useQuery({
    queryKey: ['config-preview', name, component?.revision],
    queryFn: () => unwrap(http.GET('/system/config-preview', { params: { query: { generator: name } } })),
    staleTime: 0,
  })
  const restart = useMutation({
    mutationFn: () =>
      confirm({
        title: t('restart.title', { name }),
        text: t('restart.text'),
        verb: t('restart.verb'),
        act: async () => {
          const { error } = await unwrap(http.POST('/system/service-restart', { body: { kind: name as Restartable } }))
          if (error) throw new Error(error)
        },
      }),
    onSuccess: (yes) => yes && toast('live', t('restart.done', { name })),
  })

  return (
    <DetailDrawer title={name} back={paths.components} wide>
      <div className={classes.detail}>
        {component && (
          <Group gap="md">
            <StateBadge state={component.state} />
            {canEdit && component.state !== 'not_installed' && restartable.includes(name) && (
              <Button size="compact-sm" variant="default" onClick={() => restart.mutate()}>
                {t('restart.verb')}
              </Button>
            )}
          </Group>
        )}
        {component?.last_error && <Notice tone={stateTone[component.state]}>{component.last_error}</Notice>}
        <Loaded query={preview} height={240}>
          {({ files, diff }) => (
            <>
              <h3>{t('diff')}</h3>
              {diff ? <Diff text={diff} /> : <Notice tone="live">{t('same')}</Notice>}
              {files.map((file) => (
                <section key={file.path} className={classes.file}>
                  <h3 className="mono">{file.path}</h3>
                  <Code label={file.path} text={file.content} />
                </section>
              ))}
            </>
          )}
        </Loaded>
      </div>
    </DetailDrawer>
  )
}
