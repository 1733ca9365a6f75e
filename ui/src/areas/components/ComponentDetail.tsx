import { Button, Group } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { paths as ApiPaths } from '../../api/schema'
import { useCanEdit } from '../../api/session'
import { componentStream } from '../../api/streams'
import { confirm } from '../../kit/change/confirm'
import { Code, Diff } from '../../kit/change/Diff'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { componentName, conditionOf, isTrouble, reasonOf } from '../../kit/state/condition'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { conditionTone, StateBadge } from '../../kit/state/StateBadge'
import { toast } from '../../kit/state/toast'
import { useStream } from '../../kit/state/useStream'
import { paths } from '../../paths'
import { sourcesOf } from '../logs/log-logic'
import classes from './Components.module.css'

type Restartable = ApiPaths['/system/service-restart']['post']['requestBody']['content']['application/json']['kind']
const restartable: string[] = ['reverse-proxy', 'forward-proxy', 'dns', 'ntp'] satisfies Restartable[]

/** One component: what it would write now, compared to what is live. */
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
        title: t('restart.title', { name: componentName(name) }),
        text: t(`restart.costs.${name}`),
        verb: t('restart.verb'),
        danger: true,
        act: async () => {
          const { active, error } = await unwrap(
            http.POST('/system/service-restart', { body: { kind: name as Restartable } }),
          )
          if (error) throw new Error(error)
          // The console uses the reverse proxy, which therefore restarts after the answer.
          if (active === 'activating') toast('warn', t('restart.cut'))
          else toast('live', t('restart.done', { name: componentName(name) }))
        },
      }),
  })

  return (
    <DetailDrawer title={componentName(name)} back={paths.components} wide>
      <div className={classes.detail}>
        {component && (
          <Group gap="md">
            <StateBadge component={component} />
            <Link to={paths.logs} search={{ sources: sourcesOf(name) } as never}>
              {t('logs')}
            </Link>
            {canEdit && component.state !== 'not_installed' && restartable.includes(name) && (
              <Button size="compact-sm" variant="default" onClick={() => restart.mutate()}>
                {t('restart.verb')}
              </Button>
            )}
          </Group>
        )}
        {component && isTrouble(component) && (
          <Notice tone={conditionTone[conditionOf(component)]} title={reasonOf(component)}>
            {component.detail && (
              <details>
                <summary>{t('details')}</summary>
                <pre className={classes.words}>{component.detail}</pre>
              </details>
            )}
          </Notice>
        )}
        <Loaded query={preview} height={240}>
          {({ files, diff }) => (
            <>
              <h3>{t('diff')}</h3>
              {diff ? <Diff text={diff} /> : <p className="soft">{t('same')}</p>}
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
